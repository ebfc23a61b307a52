//! The header is what cbindgen makes of the sources. `CENOTE_WRITE_HEADER=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in ["boundary", "pool", "rwlock", "dlock", "objects", "writer", "view"] {
        builder = builder.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made: String = String::from_utf8(made)
        .unwrap()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    // What Rust has a heading for.
    let made = made.replace("// # Safety\n//\n// ", "// Preconditions: ");
    let header = root.join("include/cenote.h");
    if std::env::var_os("CENOTE_WRITE_HEADER").is_some() {
        std::fs::write(header, made).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(header).unwrap_or_default();
    assert!(
        kept == made,
        "include/cenote.h is not what the sources say; run `CENOTE_WRITE_HEADER=1 cargo test -p cenote-ffi --test header`"
    );
}

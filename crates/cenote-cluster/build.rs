//! Builds the binding of libfabric, with the feature `ofi`; else there is nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=src/ofi/shim.c");
    #[cfg(feature = "ofi")]
    shim();
}

#[cfg(feature = "ofi")]
fn shim() {
    match pkg_config::Config::new()
        .atleast_version("1.17")
        .probe("libfabric")
    {
        Ok(library) => {
            cc::Build::new()
                .file("src/ofi/shim.c")
                .includes(library.include_paths)
                .warnings_into_errors(true)
                .extra_warnings(true)
                .compile("cenote_ofi");
            // After the shim, which needs it.
            for name in library.libs {
                println!("cargo::rustc-link-lib={name}");
            }
        }
        Err(error) => println!(
            "cargo::error=the feature `ofi` needs libfabric 1.17 or later, and pkg-config (Debian: apt-get install libfabric-dev pkg-config): {error}"
        ),
    }
}

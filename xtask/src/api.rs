//! The public interface of crate `cenote` without features, kept in `docs/api.txt`, so that no change of it goes
//! unnoticed.
//!
//! rustdoc prints the interface as JSON, in a format that it calls unstable and numbers. With a toolchain of another
//! format nothing can be compared: the command fails, and says what to do. The interface must not name the private
//! layers, except in bounds that no other crate can meet.

use std::path::Path;
use std::process::Command;

/// Where the interface is kept.
const KEPT: &str = "docs/api.txt";
/// Layers that a user of the library does not see, and whose types a user could not name.
const PRIVATE: &[&str] = &["pod::", "memory::", "index::", "sync::", "store::"];
/// Exceptions: bounds that only types of the library meet.
const SEALED: &[&str] = &[
    "memory::Memory",
    "memory::Mapped",
    "memory::exchange::Exchange",
    "sync::guard::Release",
    "sync::array::ArrayLock",
];

/// What to do about a format that is not the one that is read.
const OTHER_FORMAT: &str = "set `public-api` in `xtask/Cargo.toml` to the version that reads this format, or use an older toolchain until there is one";

/// Compares the interface with the kept file, or writes that file. Returns whether all is well.
pub fn run(root: &Path, writes: bool) -> bool {
    let found = match read(root) {
        Ok(found) => found,
        Err(Trouble::OtherFormat(why)) => {
            eprintln!("api: {why}");
            eprintln!("    {OTHER_FORMAT}");
            return false;
        }
        Err(Trouble::Failed(why)) => {
            eprintln!("api: {why}");
            return false;
        }
    };
    let mut is_well = true;
    for line in found.iter().filter(|line| names_private(line)) {
        eprintln!("api: a private type in a public signature: {line}");
        eprintln!(
            "    re-export the type in `lib.rs`, or make the item `pub(crate)` but for feature `internals`"
        );
        is_well = false;
    }
    let text = found.join("\n") + "\n";
    let path = root.join(KEPT);
    if writes {
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("api: {}: {error}", path.display());
            return false;
        }
        println!("api: {} items in {KEPT}", found.len());
        return is_well;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let (more, less) = differences(&kept, &text);
    for line in &more {
        eprintln!("api: + {line}");
    }
    for line in &less {
        eprintln!("api: - {line}");
    }
    if !(more.is_empty() && less.is_empty()) {
        eprintln!(
            "api: the interface is not what {KEPT} says; if that is meant, `cargo xtask api --write` keeps it"
        );
        return false;
    }
    println!("api: {} items, as in {KEPT}", found.len());
    is_well
}

enum Trouble {
    OtherFormat(String),
    Failed(String),
}

fn read(root: &Path) -> Result<Vec<String>, Trouble> {
    // rustdoc's JSON is unstable: this is how a stable toolchain is asked for it.
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustdoc", "--quiet", "--package", "cenote", "--lib", "--"])
        .args([
            "-Z",
            "unstable-options",
            "--output-format",
            "json",
            "--cap-lints",
            "allow",
        ])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root)
        .status()
        .map_err(|error| Trouble::Failed(format!("cargo rustdoc: {error}")))?;
    if !status.success() {
        return Err(Trouble::Failed("cargo rustdoc failed".into()));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder));
    let json = target.join("doc/cenote.json");
    let text = std::fs::read_to_string(&json)
        .map_err(|error| Trouble::Failed(format!("{}: {error}", json.display())))?;
    let format = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|value| value["format_version"].as_u64());
    let public = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| match format {
            Some(format) => {
                Trouble::OtherFormat(format!("rustdoc writes its JSON in format {format}: {error}"))
            }
            None => Trouble::Failed(error.to_string()),
        })?;
    let mut items: Vec<String> = public.items().map(ToString::to_string).collect();
    items.sort();
    items.dedup();
    Ok(items)
}

fn names_private(line: &str) -> bool {
    let without = SEALED.iter().fold(line.to_owned(), |line, sealed| {
        line.replace(&format!("cenote::{sealed}"), "")
    });
    PRIVATE
        .iter()
        .any(|layer| without.contains(&format!("cenote::{layer}")))
}

/// Lines of the second text that the first does not have, and the other way round.
fn differences<'t>(kept: &'t str, found: &'t str) -> (Vec<&'t str>, Vec<&'t str>) {
    let only = |of: &'t str, other: &str| {
        let other: std::collections::BTreeSet<&str> = other.lines().collect();
        of.lines().filter(|line| !other.contains(line)).collect()
    };
    (only(found, kept), only(kept, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_and_what_is_gone_are_found() {
        let (more, less) = differences("pub fn a()\npub fn b()\n", "pub fn b()\npub fn c()\n");
        assert_eq!((more, less), (vec!["pub fn c()"], vec!["pub fn a()"]));
    }

    #[test]
    fn private_types_are_found_and_sealed_bounds_are_not() {
        assert!(names_private(
            "pub fn cenote::Pool::worker() -> cenote::pod::instance::worker::Worker"
        ));
        assert!(names_private(
            "pub fn cenote::Map<M: cenote::memory::Memory>::at(cenote::memory::Mapping)"
        ));
        assert!(!names_private(
            "pub struct cenote::Map<M: cenote::memory::Memory>"
        ));
        assert!(!names_private(
            "pub fn cenote::Pool::map(&self, &str) -> cenote::Result<cenote::Map>"
        ));
    }
}

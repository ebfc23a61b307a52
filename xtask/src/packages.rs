//! What the tests need from the system, and how a missing piece is installed on Debian and its kin.

use crate::process;
use std::path::Path;
use std::process::Command;

/// A command that the tests need and the package that brings it.
pub struct Needed {
    /// Looked for on the search path; a file that is no command is named by its whole path.
    pub command: &'static str,
    /// What `apt-get install` is asked for.
    pub package: &'static str,
    /// Said when it is missing.
    pub purpose: &'static str,
}

/// Add a line here when a test needs one more thing. Peers that only benchmarks use do not belong here.
pub const NEEDED: &[Needed] = &[
    Needed {
        command: "cc",
        package: "build-essential",
        purpose: "linking, and building C sources",
    },
    Needed {
        command: "protoc",
        package: "protobuf-compiler",
        purpose: "building the client of etcd",
    },
    Needed {
        command: "/usr/include/google/protobuf/descriptor.proto",
        package: "libprotobuf-dev",
        purpose: "building the client of etcd",
    },
    Needed {
        command: "etcd",
        package: "etcd-server",
        purpose: "the tests of elections",
    },
    Needed {
        command: "python3",
        package: "python3",
        purpose: "the tests of the Python package",
    },
    Needed {
        command: "pkg-config",
        package: "pkg-config",
        purpose: "finding libfabric",
    },
    Needed {
        command: "/usr/include/rdma/fabric.h",
        package: "libfabric-dev",
        purpose: "the tests of clusters over libfabric",
    },
];

/// Makes sure that everything needed is there; installs what is missing where that is allowed.
pub fn install_missing(needed: &[Needed]) -> Result<String, String> {
    let missing: Vec<&Needed> = needed.iter().filter(|one| !on_search_path(one.command)).collect();
    if missing.is_empty() {
        let names: Vec<&str> = needed.iter().map(|one| one.command).collect();
        return Ok(format!("nothing to install; found {}", names.join(", ")));
    }
    let list = install(&missing)?;
    match missing.iter().find(|one| !on_search_path(one.command)) {
        None => Ok(format!("installed {list}")),
        Some(one) => Err(format!(
            "package {} was installed, but there is still no `{}`",
            one.package, one.command
        )),
    }
}

/// Installs packages where that is allowed. Returns what they are, for people.
pub fn install(missing: &[&Needed]) -> Result<String, String> {
    let list: Vec<String> = missing
        .iter()
        .map(|one| format!("`{}` ({}; package {})", one.command, one.purpose, one.package))
        .collect();
    let list = list.join(", ");
    let apt = apt_get().ok_or_else(|| {
        format!("missing: {list}. Install it; this command can do so only as root or with sudo, where apt-get exists")
    })?;
    println!("missing: {list}");
    let packages: Vec<&str> = missing.iter().map(|one| one.package).collect();
    for arguments in [
        vec!["update", "-q"],
        [vec!["install", "-q", "-y", "--no-install-recommends"], packages].concat(),
    ] {
        let mut command = Command::new(apt[0]);
        command
            .args(&apt[1..])
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        process::run(command, process::LIMIT_DEFAULT)
            .map_err(|failure| format!("apt-get {}: {failure}; missing: {list}", arguments[0]))?;
    }
    Ok(list)
}

fn on_search_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

/// How to call apt-get from here without a password, if there is a way.
fn apt_get() -> Option<&'static [&'static str]> {
    if !on_search_path("apt-get") {
        return None;
    }
    if is_root() {
        return Some(&["apt-get"]);
    }
    let sudo = on_search_path("sudo")
        && Command::new("sudo")
            .args(["-n", "true"])
            .status()
            .is_ok_and(|s| s.success());
    if sudo {
        Some(&["sudo", "-n", "apt-get"])
    } else {
        None
    }
}

/// The owner of `/proc/self` is the effective user of this process.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_misses_what_is_not() {
        assert!(on_search_path("sh"));
        assert!(!on_search_path("no-such-command-anywhere"));
    }

    #[test]
    fn nothing_missing_installs_nothing() {
        let shell = [Needed {
            command: "sh",
            package: "dash",
            purpose: "this test",
        }];
        assert_eq!(install_missing(&shell).unwrap(), "nothing to install; found sh");
    }
}

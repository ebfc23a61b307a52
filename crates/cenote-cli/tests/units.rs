//! The systemd units: how much they may do, by `systemd-analyze` where it is at hand and by their text everywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `systemd-analyze security` may say of them, in tenths.
const EXPOSURE_MAX: u32 = 29;

const UNITS: [(&str, &str); 2] = [
    ("cenote-agent@.service", "cenote-agent@orders.service"),
    ("cenote-monitor.service", "cenote-monitor.service"),
];

/// Those of a cluster, which have no pool of a pod.
const OF_CLUSTERS: [(&str, &str); 2] = [
    ("cenote-master.service", "cenote-master.service"),
    ("cenote-memnode.service", "cenote-memnode.service"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/systemd")
}

fn text(unit: &str) -> String {
    std::fs::read_to_string(folder().join(unit)).unwrap()
}

/// The settings of a unit's service: each with all that it is set to.
fn settings(unit: &str) -> BTreeMap<String, Vec<String>> {
    let mut settings = BTreeMap::<String, Vec<String>>::new();
    let mut section = String::new();
    for line in text(unit).lines().filter(|line| !line.starts_with('#')) {
        match line.split_once('=') {
            Some((name, value)) if section == "[Service]" => {
                settings
                    .entry(name.to_owned())
                    .or_default()
                    .push(value.to_owned());
            }
            None if line.starts_with('[') => section = line.to_owned(),
            _ => {}
        }
    }
    settings
}

/// Runs `systemd-analyze`; none where it is not installed, or so old that it knows no `--offline`.
fn analyze(arguments: &[&str], unit: &Path) -> Option<Output> {
    let mut command = Command::new("systemd-analyze");
    match command.args(arguments).arg(unit).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        output => {
            let output = output.unwrap();
            let is_old = String::from_utf8_lossy(&output.stderr).contains("unrecognized option");
            (!is_old).then_some(output)
        }
    }
}

#[test]
fn units_may_do_no_more_than_they_need() {
    for (unit, _) in UNITS {
        let settings = settings(unit);
        let is = |name: &str, value: &str| {
            let set = settings.get(name).map(|values| values.join(" "));
            assert_eq!(set.as_deref(), Some(value), "{unit}: {name}");
        };
        for name in [
            "NoNewPrivileges",
            "ProtectHome",
            "PrivateTmp",
            "RestrictSUIDSGID",
            "RestrictNamespaces",
            "LockPersonality",
            "MemoryDenyWriteExecute",
            "ProtectClock",
            "ProtectControlGroups",
            "ProtectHostname",
            "ProtectKernelLogs",
            "ProtectKernelModules",
            "ProtectKernelTunables",
        ] {
            is(name, "yes");
        }
        is("User", "cenote");
        is("Group", "cenote");
        is("UMask", "0007");
        is("ProtectSystem", "strict");
        is("ReadWritePaths", "-/run/cenote -/run/cenote-health");
        is("CapabilityBoundingSet", "");
        is("DevicePolicy", "closed");
        is("DeviceAllow", "char-dax rw");
        is("SystemCallArchitectures", "native");
        is("SystemCallFilter", "@system-service ~@keyring @privileged");
        let families = &settings["RestrictAddressFamilies"][0];
        assert!(
            families.split(' ').all(|family| family.starts_with("AF_")),
            "{families}"
        );
        // With these it could not do its work, or would take the pool away at its end.
        for name in [
            "RemoveIPC",
            "RestrictRealtime",
            "PrivateDevices",
            "ProtectProc",
            "DynamicUser",
        ] {
            assert!(!settings.contains_key(name), "{unit}: {name}");
        }
        let socket = settings["ExecStart"][0].split_whitespace();
        let socket = socket.skip_while(|word| *word != "--health").nth(1).unwrap();
        assert!(socket.starts_with("/run/cenote-health/"), "{socket}");
    }
    assert!(text("sysusers.conf").contains("\ng cenote-health -\n"));
    assert!(text("tmpfiles.conf").contains("\nd /run/cenote-health 2750 cenote cenote-health\n"));
}

#[test]
fn systemd_finds_little_to_expose() {
    for (unit, _) in UNITS.into_iter().chain(OF_CLUSTERS) {
        let Some(output) = analyze(&["security", "--offline=true"], &folder().join(unit)) else {
            eprintln!("systemd-analyze is not installed; the units are judged by their text alone");
            return;
        };
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let exposure = told.split("Overall exposure level for ").nth(1).and_then(|told| {
            told.split_whitespace()
                .nth(1)?
                .replace('.', "")
                .parse::<u32>()
                .ok()
        });
        assert!(
            exposure.is_some_and(|exposure| exposure <= EXPOSURE_MAX),
            "{unit}: {told} {output:?}"
        );
    }
}

#[test]
fn systemd_understands_the_units() {
    let copies = tempfile::tempdir().unwrap();
    for (unit, copy) in UNITS.into_iter().chain(OF_CLUSTERS) {
        let copy = copies.path().join(copy);
        // What they run is not installed here.
        let text = text(unit).replace("/usr/local/bin/cenote", env!("CARGO_BIN_EXE_cenote"));
        std::fs::write(&copy, text).unwrap();
        let Some(output) = analyze(&["verify"], &copy) else {
            eprintln!("systemd-analyze is not installed; the units are judged by their text alone");
            return;
        };
        let told = String::from_utf8_lossy(&output.stderr);
        let is_quiet = !told.lines().any(|line| line.contains("cenote"));
        assert!(output.status.success() && is_quiet, "{unit}: {told}");
    }
}

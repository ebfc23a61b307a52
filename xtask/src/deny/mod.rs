//! `cargo xtask deny`: checks all dependencies against `deny.toml`: licences, sources, duplicate versions.
//!
//! cargo-deny judges the same and more; building it takes longer than all other steps of the test command together (90
//! of its 211 packages in seven minutes on two busy cores). Where it is installed it is asked for advisories, if it
//! reaches their database.

mod config;
mod graph;
mod license;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use config::Config;
use graph::Package;

use crate::test::cargo;

/// Judges, and prints what is wrong. Returns whether nothing is.
pub fn run(root: &Path) -> bool {
    match check(root) {
        Ok(text) => {
            println!("{text}");
            true
        }
        Err(text) => {
            eprintln!("{text}");
            false
        }
    }
}

fn check(root: &Path) -> Result<String, String> {
    let config = config::read(&root.join("deny.toml"))?;
    let packages = graph::packages(root, &config.graph)?;
    let wrong = judge(&config, &packages);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let advisories = advisories(root)?;
    Ok(format!(
        "{} packages: licences, sources and versions are as deny.toml allows; {advisories}",
        packages.len()
    ))
}

/// All that is wrong.
fn judge(config: &Config, packages: &[Package]) -> Vec<String> {
    let mut wrong = licenses(config, packages);
    wrong.extend(packages.iter().filter_map(|package| source(config, package)));
    wrong.extend(versions(config, packages));
    wrong
}

fn licenses(config: &Config, packages: &[Package]) -> Vec<String> {
    let (allowed, exceptions) = (&config.licenses.allow, &config.licenses.exceptions);
    let (mut used, mut excepted) = (Vec::new(), Vec::new());
    let mut wrong = Vec::new();
    for Package {
        name,
        version,
        license,
        ..
    } in packages
    {
        let Some(license) = license else {
            wrong.push(format!("{name} {version} states no licence"));
            continue;
        };
        let exception = exceptions.iter().find(|exception| exception.package == *name);
        let (mut own, mut used_here) = (allowed.clone(), Vec::new());
        own.extend(
            exception
                .into_iter()
                .flat_map(|exception| exception.allow.clone()),
        );
        let is_satisfied = license::is_satisfied(license, &own, &mut used_here);
        if let Some(exception) = exception
            && exception.allow.iter().any(|license| used_here.contains(license))
        {
            excepted.push(&exception.package);
        }
        used.extend(used_here);
        match is_satisfied {
            Ok(true) => {}
            Ok(false) => wrong.push(format!(
                "{name} {version}: deny.toml does not allow its licence, {license}"
            )),
            Err(why) => wrong.push(format!("{name} {version}: its licence, {license}: {why}")),
        }
    }
    let unused = allowed.iter().filter(|license| !used.contains(license));
    wrong.extend(
        unused.map(|license| format!("deny.toml allows {license}, which nothing needs: take it out")),
    );
    let needless = exceptions
        .iter()
        .filter(|exception| !excepted.contains(&&exception.package));
    wrong.extend(needless.map(|exception| {
        format!(
            "deny.toml makes an exception of {}, which needs none: take it out",
            exception.package
        )
    }));
    wrong
}

fn source(config: &Config, package: &Package) -> Option<String> {
    let source = package.source.as_deref()?;
    let registry = source.strip_prefix("registry+");
    let is_allowed = registry.is_some_and(|registry| {
        config
            .sources
            .allow_registry
            .iter()
            .any(|allowed| allowed == registry)
    });
    (!is_allowed).then(|| {
        format!(
            "{} {}: deny.toml does not allow its source, {source}",
            package.name, package.version
        )
    })
}

fn versions(config: &Config, packages: &[Package]) -> Vec<String> {
    let mut counted = BTreeMap::<&str, Vec<&str>>::new();
    let skipped = |package: &Package| {
        let mut skips = config.bans.skip.iter();
        skips.any(|skip| skip.is(&package.name, &package.version))
    };
    for package in packages.iter().filter(|package| !skipped(package)) {
        counted.entry(&package.name).or_default().push(&package.version);
    }
    let mut wrong: Vec<String> = counted
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| {
            let versions = versions.join(" and ");
            format!("{name} is there as {versions}: depend on one, or name the older one in deny.toml with the reason")
        })
        .collect();
    let is_needed = |skip: &&config::Skip| {
        let there = packages
            .iter()
            .find(|package| skip.is(&package.name, &package.version));
        there.is_some_and(|found| packages.iter().filter(|other| other.name == found.name).count() > 1)
    };
    let needless = config.bans.skip.iter().filter(|skip| !is_needed(skip));
    wrong.extend(needless.map(|skip| {
        format!(
            "deny.toml skips {}, of which no other version is there: take it out",
            skip.package
        )
    }));
    wrong
}

/// Asks cargo-deny for advisories, where it is installed and reaches their database. Returns the outcome.
fn advisories(root: &Path) -> Result<&'static str, String> {
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(cargo());
        command.arg("deny").args(arguments).current_dir(root);
        command.status().is_ok_and(|status| status.success())
    };
    let is_there = Command::new(cargo()).args(["deny", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Ok("advisories are not looked for without cargo-deny");
    }
    if !deny(&["fetch", "db"]) {
        return Ok("advisories are not looked for, as their database cannot be reached");
    }
    match deny(&["check", "--disable-fetch", "advisories"]) {
        true => Ok("no advisory concerns them"),
        false => Err("cargo-deny found advisories, above".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    const PLAIN: &str = r#"
        graph = { targets = [], all-features = true }
        licenses = { allow = ["MIT"] }
        sources = { unknown-registry = "deny", unknown-git = "deny", allow-registry = ["https://index"] }
        bans = { multiple-versions = "deny", skip = [{ crate = "twice@0.1", reason = "a test" }] }
        advisories = {}
    "#;

    fn package(name: &str, version: &str, license: Option<&str>, source: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            id: format!("{name} {version}"),
            license: license.map(str::to_owned),
            source: Some(source.into()),
        }
    }

    /// Two versions of one, of which the older one is skipped, and one of our own.
    fn fine() -> Vec<Package> {
        let from = "registry+https://index";
        let mut ours = package("ours", "0.1.0", Some("MIT"), from);
        ours.source = None;
        vec![
            ours,
            package("twice", "0.1.7", Some("MIT"), from),
            package("twice", "0.2.0", Some("Apache-2.0 OR MIT"), from),
        ]
    }

    #[test]
    fn what_is_allowed_is_fine() {
        assert_eq!(judge(&config(PLAIN), &fine()), Vec::<String>::new());
    }

    #[test]
    fn planted_faults_are_found() {
        let from = "registry+https://index";
        for (planted, wanted) in [
            (
                package("bad", "1.0.0", Some("GPL-3.0"), from),
                "its licence, GPL-3.0",
            ),
            (package("bad", "1.0.0", None, from), "states no licence"),
            (package("bad", "1.0.0", Some("MIT OR"), from), "is missing"),
            (
                package("bad", "1.0.0", Some("MIT"), "registry+https://other"),
                "its source",
            ),
            (
                package("bad", "1.0.0", Some("MIT"), "git+https://index"),
                "its source",
            ),
            (package("ours", "0.2.0", Some("MIT"), from), "0.1.0 and 0.2.0"),
            (package("twice", "0.10.0", Some("MIT"), from), "0.2.0 and 0.10.0"),
        ] {
            let wrong = judge(&config(PLAIN), &[fine(), vec![planted]].concat());
            assert!(wrong.len() == 1 && wrong[0].contains(wanted), "{wrong:?}");
        }
        let needless = judge(&config(PLAIN), &fine()[..2]);
        assert!(
            needless.len() == 1 && needless[0].contains("twice@0.1"),
            "{needless:?}"
        );
        let wider = config(&PLAIN.replace("[\"MIT\"]", "[\"MIT\", \"Zlib\"]"));
        assert!(judge(&wider, &fine())[0].contains("allows Zlib"));
    }

    #[test]
    fn an_exception_is_for_one_package_and_needed() {
        let excepting = |name: &str| {
            let text = format!("exceptions = [{{ crate = \"{name}\", allow = [\"MPL-2.0\"] }}], allow = [");
            config(&PLAIN.replace("allow = [\"MIT", &format!("{text}\"MIT")))
        };
        let tool = package("tool", "1.0.0", Some("MPL-2.0"), "registry+https://index");
        let packages = [fine(), vec![tool]].concat();
        assert_eq!(judge(&excepting("tool"), &packages), Vec::<String>::new());
        let wrong = judge(&excepting("twice"), &packages);
        assert!(
            wrong.len() == 2 && wrong[0].contains("its licence, MPL-2.0"),
            "{wrong:?}"
        );
        assert!(wrong[1].contains("an exception of twice"), "{wrong:?}");
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        for (from, to) in [
            ("skip =", "deny = [], skip ="),
            ("unknown-git = \"deny\"", "unknown-git = \"warn\""),
            ("allow = [", "private = {}, allow = ["),
        ] {
            let text = PLAIN.replace(from, to);
            assert!(toml::from_str::<Config>(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_what_a_build_uses_is_looked_at() {
        let metadata = br#"{
            "packages": [
                {"name": "a", "version": "1.0.0", "id": "a 1", "license": "MIT", "source": null},
                {"name": "b", "version": "1.0.0", "id": "b 1", "license": null, "source": "registry+x"}
            ],
            "resolve": {"nodes": [{"id": "a 1", "deps": []}]}
        }"#;
        let packages = graph::parse(metadata).unwrap();
        assert_eq!(packages.len(), 1);
        assert_eq!((&*packages[0].name, &packages[0].source), ("a", &None));
    }
}

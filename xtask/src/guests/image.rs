//! The image that a guest boots: a kernel, and a first file system with the command, the application and what they
//! need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Cpio;
use super::output_of;
use crate::packages::Needed;

/// What has to be there to run guests.
pub const NEEDED: &[Needed] = &[
    Needed {
        command: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "the virtual machines",
    },
    Needed {
        command: "busybox",
        package: "busybox-static",
        purpose: "the programs of the guests",
    },
    Needed {
        command: "strip",
        package: "binutils",
        purpose: "small guests",
    },
    Needed {
        command: "setpriv",
        package: "util-linux",
        purpose: "machines that end with this command",
    },
];

/// The modules that make a DAX device of an NVDIMM, in the order in which they are loaded.
const MODULES: [&str; 6] = [
    "drivers/nvdimm/libnvdimm.ko",
    "drivers/acpi/nfit/nfit.ko",
    "drivers/nvdimm/nd_btt.ko",
    "drivers/nvdimm/nd_pmem.ko",
    "drivers/dax/device_dax.ko",
    "drivers/dax/dax_pmem.ko",
];
/// The module of the network that joins the guests.
const NETWORK: &str = "drivers/net/ethernet/intel/e1000/e1000.ko";
/// The package that names the newest kernel's.
const KERNEL: &str = "linux-image-amd64";

/// A kernel and what it unpacks at first.
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    /// The first file system.
    pub initrd: PathBuf,
    /// What the kernel is called.
    pub release: String,
}

/// Makes one in `folder`. The kernel is downloaded into `cache`, if it is not there, as a package that is unpacked and
/// not installed.
pub fn make(root: &Path, cache: &Path, folder: &Path) -> Result<Image, String> {
    let unpacked = kernel(cache)?;
    let release = only(&unpacked.join("lib/modules"))?;
    let kernel = unpacked.join("boot").join(format!("vmlinuz-{release}"));
    let mut archive = Cpio::default();
    for name in ["bin", "dev", "etc", "modules", "proc", "run", "sys", "tmp"] {
        archive.folder(name);
    }
    archive.program("init", include_bytes!("init.sh"));
    archive.program("fence", include_bytes!("fence.sh"));
    let busybox = output_of(Command::new("sh").args(["-c", "command -v busybox"]))?;
    archive.program("bin/busybox", &read(Path::new(busybox.trim()))?);
    for module in MODULES.into_iter().chain([NETWORK]) {
        let path = unpacked
            .join("lib/modules")
            .join(&release)
            .join("kernel")
            .join(module);
        let name = module.rsplit('/').next().unwrap_or(module);
        archive.program(&format!("modules/{name}"), &read(&path)?);
    }
    let programs = programs(root, folder)?;
    for (name, path) in &programs {
        archive.program(&format!("bin/{name}"), &read(path)?);
    }
    let mut folders = Vec::new();
    for library in libraries(programs.iter().map(|(_, path)| path))? {
        let name = library.trim_start_matches('/');
        let ends = name.match_indices('/').map(|(at, _)| &name[..at]);
        for parent in ends.map(str::to_owned).collect::<Vec<_>>() {
            if !folders.contains(&parent) {
                archive.folder(&parent);
                folders.push(parent);
            }
        }
        archive.program(name, &read(Path::new(&library))?);
    }
    let initrd = folder.join("initrd");
    fs::write(&initrd, archive.finish()).map_err(|error| format!("{}: {error}", initrd.display()))?;
    Ok(Image {
        kernel,
        initrd,
        release,
    })
}

/// The folder that the kernel's package is unpacked to.
fn kernel(cache: &Path) -> Result<PathBuf, String> {
    let said = output_of(Command::new("apt-cache").args(["depends", KERNEL]))
        .map_err(|error| format!("{error}; the guests' kernel is that of Debian's package {KERNEL}"))?;
    let package = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .ok_or(format!(
            "package {KERNEL} is unknown here; `apt-get update` may help"
        ))?;
    let unpacked = cache.join(package);
    if unpacked.join("boot").is_dir() {
        return Ok(unpacked);
    }
    println!("downloading {package} to {}", cache.display());
    let coming = cache.join(format!("coming-{}", std::process::id()));
    fs::create_dir_all(&coming).map_err(|error| format!("{}: {error}", coming.display()))?;
    let come = || {
        output_of(
            Command::new("apt-get")
                .args(["download", "-q", package])
                .current_dir(&coming),
        )?;
        let file = coming.join(only(&coming)?);
        let tree = coming.join("tree");
        output_of(Command::new("dpkg-deb").arg("-x").args([&file, &tree]))?;
        fs::rename(&tree, &unpacked).map_err(|error| format!("{}: {error}", unpacked.display()))
    };
    let done = come();
    // A leftover that cannot be removed does no harm.
    let _ = fs::remove_dir_all(&coming);
    done.map(|()| unpacked)
}

/// Builds the command and the application, without what is for debuggers.
fn programs(root: &Path, folder: &Path) -> Result<[(&'static str, PathBuf); 2], String> {
    let mut built = [("cenote", PathBuf::new()), ("ledger", PathBuf::new())];
    for ((name, to), package) in built.iter_mut().zip(["cenote-cli", "cenote"]) {
        let what = match *name {
            "cenote" => ["--bin", "cenote"],
            example => ["--example", example],
        };
        let mut command = Command::new(crate::test::cargo());
        command
            .args(["build", "--quiet", "--release", "-p", package])
            .args(what)
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(root);
        let said = output_of(&mut command)?;
        let from = said
            .lines()
            .filter_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next())
            .next_back()
            .ok_or(format!("cargo built no {name}"))?;
        *to = folder.join(*name);
        output_of(Command::new("strip").args(["-o".as_ref(), to.as_os_str(), from.as_ref()]))?;
    }
    Ok(built)
}

/// The shared libraries that programs need, and who loads them.
fn libraries<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for program in programs {
        let said = output_of(Command::new("ldd").arg(program))?;
        let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
        found.extend(paths.map(str::to_owned));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of the only entry of a folder.
fn only(folder: &Path) -> Result<String, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    match &names[..] {
        [name] => Ok(name.to_string_lossy().into_owned()),
        names => Err(format!(
            "{} has {} entries, and not one",
            folder.display(),
            names.len()
        )),
    }
}

//! `/dev/null` must be a device. Cargo gives it to compilers as their input. A program that runs as root and replaces
//! its output file may leave an ordinary file there, whose lines compilers then take for source.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;

const NULL: &str = "/dev/null";

/// Makes it a device again if it is something else, and says so; an error where that is not allowed.
pub fn restore() -> Result<(), String> {
    if is_device(Path::new(NULL)) {
        return Ok(());
    }
    let fix = format!("`rm -f {NULL} && mknod -m 666 {NULL} c 1 3` as root makes it one");
    println!("{NULL} is no device: some program has replaced it; {fix}");
    let removed = std::fs::remove_file(NULL);
    let made = Command::new("mknod")
        .args(["-m", "666", NULL, "c", "1", "3"])
        .status();
    match (removed, made) {
        (_, Ok(status)) if status.success() && is_device(Path::new(NULL)) => Ok(()),
        (removed, made) => Err(format!("{NULL} is no device ({removed:?}, {made:?}); {fix}")),
    }
}

fn is_device(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_a_device_from_a_file() {
        assert!(is_device(Path::new("/dev/zero")));
        assert!(!is_device(&std::env::current_exe().unwrap()));
        assert!(!is_device(Path::new("/dev/no such device")));
    }
}

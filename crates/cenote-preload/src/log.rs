//! Lines for people: on standard error, or in the file that `CENOTE_LOG` names. One write each, so that lines of
//! processes do not mix.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;

use cenote_holds::uncancelled;

use crate::settings::settings;

/// Writes a line. Nothing can be done if that fails.
#[cold]
pub fn line(text: &str) {
    let program = std::env::current_exe().ok();
    let name = program
        .as_deref()
        .and_then(|path| path.file_name())
        .unwrap_or_default();
    let line = format!(
        "cenote-preload: {}[{}]: {text}\n",
        name.to_string_lossy(),
        std::process::id()
    );
    let _ = uncancelled(|| write(&line));
}

fn write(line: &str) -> Result<()> {
    match &settings().log {
        // A link or a pipe of somebody else's is not followed, nor waited for.
        Some(path) => OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes())),
        // Past the lock of std's, which another thread may have had when this process was forked.
        None => {
            // SAFETY: the program's descriptor, whatever it is; it is not closed.
            let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
            stderr.write_all(line.as_bytes())
        }
    }
}

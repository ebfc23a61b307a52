//! Lines for people: on standard error, or in the file that `CENOTE_LOG` names. One write each, so that lines of processes do not mix.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

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
    let _ = match &settings().log {
        // A link or a pipe of somebody else's is not followed, nor waited for.
        Some(path) => OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes())),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}

//! Files that appear under their name only when they are complete; those whose name ends in .gz are compressed.

use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::failure::Failure;
use crate::records::is_gzip;

/// Writes a file by `work`; what it returns is returned when the file has its name.
pub fn write<T>(file: &Path, work: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
    let failure = |error| Failure::io(file.display())(error);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .prefix(".cenote-partial-")
        // What the user's umask leaves of it.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(failure)?;
    let mut buffered = BufWriter::with_capacity(1 << 18, temporary);
    let done = if is_gzip(file) {
        let mut gzip = GzEncoder::new(&mut buffered, Compression::default());
        let done = work(&mut gzip)?;
        gzip.finish().map_err(failure)?;
        done
    } else {
        work(&mut buffered)?
    };
    let temporary = buffered
        .into_inner()
        .map_err(|error| failure(error.into_error()))?;
    temporary.as_file().sync_all().map_err(failure)?;
    temporary.persist(file).map_err(|error| failure(error.error))?;
    Ok(done)
}

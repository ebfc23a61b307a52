//! Health on a Unix socket: every client that connects is sent one line of JSON, and the connection is closed.
//!
//! A socket that an earlier process has left under the name is replaced: it is this user's, and no process answers on
//! it. Anything else that has the name stays, at the beginning and at the end.

use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::destination::{is_pool, is_same, kind_of, open_read_only};
use crate::failure::Failure;

/// A socket, as long as this lives.
pub struct Health {
    path: PathBuf,
    /// What was made.
    made: Metadata,
    /// Until it answers.
    listener: Option<UnixListener>,
}

impl Health {
    /// Takes the name, before anything else is begun. Clients that connect wait. A socket of this user's on which no
    /// process answers any more is replaced.
    pub fn bind(path: &Path) -> Result<Self, Failure> {
        if let Some(folder) = path.parent() {
            // If the folder was needed, binding reports the failure.
            let _ = std::fs::create_dir_all(folder);
        }
        let failed = || Failure::io(path.display());
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_left(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        let listener = listener.map_err(failed())?;
        Ok(Self {
            path: path.to_owned(),
            made: path.symlink_metadata().map_err(failed())?,
            listener: Some(listener),
        })
    }

    /// Begins to answer with what `status` says.
    pub fn serve(&mut self, status: impl Fn() -> String + Send + 'static) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        std::thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                for connection in listener.incoming().flatten() {
                    answer(connection, &status());
                }
            })
            .map_err(Failure::io("the thread that answers for health"))?;
        Ok(())
    }

    /// Where it answers.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the socket of an agent that is gone; fails if that is not what has the name.
fn remove_left(path: &Path) -> Result<(), Failure> {
    let failed = || Failure::io(path.display());
    let refused = |why: String| Err(Failure::failed(format!("{}: {why}", path.display())));
    let found = path.symlink_metadata().map_err(failed())?;
    if !found.file_type().is_socket() {
        let is_pool = found.is_file()
            && open_read_only(path)
                .and_then(|file| is_pool(&file))
                .unwrap_or(false);
        let what = if is_pool {
            "a pool"
        } else {
            kind_of(found.file_type())
        };
        return refused(format!(
            "it is {what}, and no socket of an agent's that is gone; it stays. Name another path"
        ));
    }
    let owner = found.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return refused(format!(
            "it is a socket of another user's ({owner}), which stays. Name another path"
        ));
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => {}
        Ok(()) | Err(Errno::AGAIN) => {
            return refused("somebody answers on this socket already. Name another path".to_owned());
        }
        Err(error) => {
            let why = io::Error::from(error);
            return refused(format!(
                "nobody can tell whether somebody answers on this socket, and it stays: {why}. Name another path"
            ));
        }
    }
    match path.symlink_metadata() {
        Ok(now) if is_same(&now, &found) => std::fs::remove_file(path).map_err(failed()),
        // Binding reports what is there now.
        _ => Ok(()),
    }
}

/// Whether a process listens, without waiting for one that listens and does not accept.
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn answer(mut connection: UnixStream, status: &str) {
    // The client may have gone.
    let _ = connection.write_all(format!("{status}\n").as_bytes());
}

impl Drop for Health {
    fn drop(&mut self) {
        // Another process may have removed it before, and may have put something of its own there.
        if self
            .path
            .symlink_metadata()
            .is_ok_and(|now| now.file_type().is_socket() && is_same(&now, &self.made))
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

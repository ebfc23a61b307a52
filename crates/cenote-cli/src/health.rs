//! Health on a Unix socket: whoever connects is sent one line of JSON, and the connection is closed.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A socket that answers as long as this lives.
pub struct Health {
    path: PathBuf,
}

impl Health {
    /// Begins to answer with what `status` says. A socket that nobody answers on any more is replaced.
    pub fn serve(path: &Path, status: impl Fn() -> String + Send + 'static) -> Result<Self, Failure> {
        if path.exists() && UnixStream::connect(path).is_err() {
            // If it cannot be removed, binding tells why.
            let _ = std::fs::remove_file(path);
        }
        if let Some(folder) = path.parent() {
            // The same.
            let _ = std::fs::create_dir_all(folder);
        }
        let listener = UnixListener::bind(path).map_err(Failure::io(path.display()))?;
        std::thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                for connection in listener.incoming().flatten() {
                    answer(connection, &status());
                }
            })
            .map_err(Failure::io("the thread that answers for health"))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Where it answers.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn answer(mut connection: UnixStream, status: &str) {
    // Whoever asked may have gone.
    let _ = connection.write_all(format!("{status}\n").as_bytes());
}

impl Drop for Health {
    fn drop(&mut self) {
        // Somebody may have removed it before.
        let _ = std::fs::remove_file(&self.path);
    }
}

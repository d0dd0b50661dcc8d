//! At most one workshop of a checkout runs at a time. The second one finds the address of the first.
//!
//! A file in the lab's memory has the address, and the running server holds a lock on it. The kernel releases the lock
//! however the server ends.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Error, OrCause, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// The claim to be the one that runs. It lasts as long as this value.
#[derive(Debug)]
pub struct Instance(Flock<File>);

impl Instance {
    /// Claims it, or returns the address of the workshop that runs.
    ///
    /// # Errors
    /// If the file can't be opened or locked.
    pub fn claim(memory: &Path) -> Result<Result<Self, String>> {
        let path = memory.join("workshop.url");
        let cannot = || format!("cannot open {}", path.display());
        fs::create_dir_all(memory).or_cause(cannot())?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.or_cause(cannot())?;
        // The address has a secret.
        file.set_permissions(Permissions::from_mode(0o600)).or_cause(cannot())?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Ok(Self(file))),
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut url = String::new();
                file.read_to_string(&mut url).or_cause(cannot())?;
                match url.is_empty() {
                    false => Ok(Err(url)),
                    true => Err(Error::new("another workshop is just starting").fix("try again in a second")),
                }
            }
            Err((_, errno)) => Err(errno).or_cause(cannot()),
        }
    }

    /// Writes the address for those who come later.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn announce(&self, url: &str) -> Result<()> {
        let mut file = &*self.0;
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(url.as_bytes()));
        written.or_cause("cannot write the workshop's address")
    }
}

//! At most one workshop of a working folder runs at a time. The second one finds the address of the first.
//!
//! A private file in the folder has the port and the secrets, and the running server holds a lock on it. The kernel
//! releases the lock however the server ends. The next start takes the same port. A tab that is still open has the same
//! storage then, and continues as soon as the new address is opened in its browser.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Error, OrCause, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::auth::Auth;

/// The claim to be the one that runs. It lasts as long as this value.
pub struct Instance {
    file: Flock<File>,
    pub before: Option<Auth>,
}

pub enum Claim {
    Ours(Instance),
    Theirs(Auth),
}

impl Instance {
    /// Claims the working folder. If a workshop there waits for the end of its programs, we wait for it.
    pub fn claim(mine: &Path) -> Result<Claim> {
        let path = mine.join("workshop.json");
        let cannot = || format!("cannot open {}", path.display());
        fs::create_dir_all(mine).or_cause(cannot())?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.or_cause(cannot())?;
        file.set_permissions(Permissions::from_mode(0o600)).or_cause(cannot())?;
        let read = |mut file: &File| {
            let mut text = String::new();
            file.read_to_string(&mut text).or_cause(cannot())?;
            Ok::<Option<Auth>, Error>(serde_json::from_str(&text).ok())
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Claim::Ours(Self { before: read(&file)?, file })),
            Err((file, Errno::EWOULDBLOCK)) => match read(&file)? {
                Some(auth) if auth.is_over => {
                    eprintln!("Waiting for the workshop before, whose programs have yet to end ...");
                    drop(Flock::lock(file, FlockArg::LockExclusive));
                    Self::claim(mine)
                }
                Some(auth) => Ok(Claim::Theirs(auth)),
                None => Err(Error::new("another workshop is just starting").fix("try again in a second")),
            },
            Err((_, errno)) => Err(errno).or_cause(cannot()),
        }
    }

    /// Writes the address and the secrets for those who come later.
    pub fn announce(&self, auth: &Auth) -> Result<()> {
        let cannot = "cannot write the workshop's address";
        let text = serde_json::to_string(auth).or_cause(cannot)?;
        let mut file = &*self.file;
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
        written.or_cause(cannot)
    }
}

//! Folders of this machine.

use std::fs::Permissions;
use std::io;
use std::iter::once;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use nix::unistd::geteuid;

/// The user's cache folder, shared by all checkouts of the workbook. It is outside of `target/` because `cargo clean`
/// empties that.
pub fn cache() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join(Path::new("bpf-storage-workbook")))
        .ok_or_else(|| {
            Error::new("there is no folder for the kernels")
                .evidence("neither XDG_CACHE_HOME nor HOME is set")
        })
}

/// A new folder in this one that only the user can enter, until it is dropped. The temporary folder is for everybody.
pub fn private(above: &Path, prefix: &str) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(above)
}

/// The same in the temporary folder.
pub fn temporary() -> io::Result<tempfile::TempDir> {
    private(&std::env::temp_dir(), ".tmp")
}

/// Checks that these folders and what is in them belong to us, or that everybody may write there.
///
/// # Errors
/// If one belongs to somebody else.
pub fn check_owner(folders: &[&Path]) -> Result<()> {
    match folders.iter().find_map(|folder| foreign(folder, geteuid().as_raw())) {
        Some(path) => Err(explain_denied(
            Error::new(format!("you may not write to {}", path.display())).evidence(DENIED),
        )),
        None => Ok(()),
    }
}

/// What this user may not change: the folder, or the first thing in it. Root may change everything.
fn foreign(folder: &Path, user: u32) -> Option<PathBuf> {
    const OTHERS_MAY_WRITE: u32 = 0o022;
    let inner = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_foreign = |path: &PathBuf| {
        path.metadata().is_ok_and(|of| user != 0 && of.uid() != user && of.mode() & OTHERS_MAY_WRITE == 0)
    };
    once(folder.to_owned()).chain(inner).find(is_foreign)
}

const DENIED: &str = "Permission denied (os error 13)";

/// Adds to an error without a fix, if something may not be written, who else it may belong to.
pub fn explain_denied(error: Error) -> Error {
    if error.has_fix() || !error.to_string().contains(DENIED) {
        return error;
    }
    error.fix(
        "if it belongs to root, as after `sudo make` or in a dev container, make it yours, in the workbook's folder: \
         sudo chown -R \"$(id -u):$(id -g)\" . ~/.cache/bpf-storage-workbook",
    )
}

/// The bytes of a file, or of all files below a folder.
pub fn size(path: &Path) -> u64 {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            path.read_dir().into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
        }
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}

/// The files below a folder whose names end in `end`, in order. Links count as files.
pub fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in folder.read_dir().or_cause(format!("cannot list {}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_somebody_else_is_named_with_how_to_get_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let (target, user) = (folder.path().join("target"), geteuid().as_raw() + 1);
        std::fs::create_dir(&target).unwrap();
        let mode = |path: &Path, mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, mode).unwrap();
        };
        mode(folder.path(), 0o700);
        assert_eq!(foreign(folder.path(), user).as_deref(), Some(folder.path()));
        mode(folder.path(), 0o777);
        assert_eq!(foreign(folder.path(), user), Some(target.clone()));
        mode(&target, 0o777);
        for user in [user, 0, user - 1] {
            assert_eq!(foreign(folder.path(), user), None);
        }
        check_owner(&[folder.path(), Path::new("/there/is/none")]).unwrap();

        let denied = || Err::<(), _>(std::io::Error::from_raw_os_error(13));
        let error = denied().or_cause("cannot write mine/Cargo.toml").unwrap_err();
        assert!(explain_denied(error).to_string().contains("sudo chown -R"));
        let ours = denied().or_cause("cannot trace").unwrap_err().fix("run it as root");
        assert_eq!(explain_denied(ours.clone()), ours);
        let full = Error::new("cannot write").evidence("No space left on device (os error 28)");
        assert_eq!(explain_denied(full.clone()), full);
    }
}

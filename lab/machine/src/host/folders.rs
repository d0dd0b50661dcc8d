//! Folders of this machine.

use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};

/// The user's cache folder, shared by all checkouts of the workbook. It is outside of `target/` because `cargo clean`
/// empties that.
///
/// # Errors
/// If the user has no home folder.
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

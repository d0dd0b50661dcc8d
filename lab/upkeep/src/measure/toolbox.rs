//! The image of the disk with other projects' tools: Debian packages with all their dependencies, and the headers of
//! our kernels, which bcc needs to compile its programs. Only a comparison with these tools downloads it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{OrCause, Result};
use machine::host::folders::cache;
use machine::host::tools::{MKE2FS, output};
use machine::lock::Lock;

use crate::packages;

/// The suite of the tools.
const SUITE: &str = "sid";
/// Their packages. bpfcc-tools are the tools of bcc.
const PACKAGES: [&str; 6] =
    ["bpftrace", "bpfcc-tools", "libbpf-tools", "trace-cmd", "linux-perf", "blktrace"];
/// The image's size. It is sparse: only its files take space.
const BYTES: u64 = 2 << 30;

/// Returns the image, and makes it if it is not in the lab's cache yet, or lacks the headers of a kernel.
///
/// # Errors
/// If a package is not available.
pub fn image() -> Result<PathBuf> {
    let kernels = Lock::read()?.kernels;
    let headers: Vec<_> = kernels.iter().map(|kernel| &kernel.source).collect();
    let releases =
        headers.iter().map(|source| format!("{} {}\n", source.package.release, source.package.version));
    let wanted: String = releases.chain([format!("{SUITE}: {}\n", PACKAGES.join(" "))]).collect();

    let folder = cache()?.join("tools");
    let [image, content] = ["image", "content"].map(|name| folder.join(name));
    if image.exists() && fs::read_to_string(&content).is_ok_and(|content| content.starts_with(&wanted)) {
        return Ok(image);
    }
    fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
    let root = tempfile::tempdir_in(&folder).or_cause("cannot make a folder")?;
    let root = root.path();
    for source in &headers {
        let release = &source.package.release;
        eprintln!("Looking for the headers of {release} ...");
        // The names of the headers that a series' kernels have in common end differently.
        let common = release.trim_end_matches("cloud-amd64");
        let names = [release, &*format!("{common}common")];
        let version = &source.package.version;
        let packages = names.map(|name| format!("linux-headers-{name}={version}"));
        packages::unpack_exactly(&source.suite, &packages, root)?;
    }
    merge(root)?;
    eprintln!("Looking for {} in Debian's {SUITE} ...", PACKAGES.join(", "));
    let versions = packages::unpack_whole(SUITE, &PACKAGES, root)?;
    for name in ["proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(name)).or_cause("cannot make a mount point")?;
    }

    let part = folder.join("part");
    fs::File::create(&part).and_then(|file| file.set_len(BYTES)).or_cause("cannot make an image")?;
    let options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d"];
    output(MKE2FS.command()?.args(options).arg(root).arg(&part))?;
    fs::rename(&part, &image).or_cause(format!("cannot make {}", image.display()))?;
    let versions = PACKAGES.iter().zip(versions).map(|(name, version)| format!("{name} {version}\n"));
    fs::write(&content, wanted + &versions.collect::<String>()).or_cause("cannot save what the image has")?;
    Ok(image)
}

/// Moves the folders at the top, where older suites have them, to `usr`, and leaves Debian's symbolic links.
fn merge(root: &Path) -> Result<()> {
    let cannot = "cannot arrange the tools' folders";
    for name in ["bin", "lib", "lib64", "sbin"] {
        let (top, usr) = (root.join(name), root.join("usr").join(name));
        fs::create_dir_all(&usr).or_cause(cannot)?;
        if top.exists() {
            output(Command::new("cp").arg("-a").args([top.join("."), usr]))?;
            fs::remove_dir_all(&top).or_cause(cannot)?;
        }
        symlink(format!("usr/{name}"), &top).or_cause(cannot)?;
    }
    Ok(())
}

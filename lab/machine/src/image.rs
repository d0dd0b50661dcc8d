//! The guest's root file system: one initramfs with busybox, our binaries and the libraries they need.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Error, OrCause, Result};
use cpio::newc::{Builder, ModeFileType, trailer};
use wire::arch::Arch;
use wire::disks::FS_OPTIONS;

use crate::cross;
use crate::host::tools::{BUSYBOX, MKE2FS, READELF};
use crate::kernels::Kernel;
use crate::workbook::Cross;

/// Modules of the kernel's package that a guest can load, with all their dependencies: disks whose timing we control,
/// disks backed by a file or by other disks, an I/O scheduler.
pub const MODULES: [&str; 5] = ["null_blk", "nbd", "mq-deadline", "loop", "dm-mod"];

/// What our tests load besides: disks whose errors we control, a disk that makes no requests, one that makes two for each
/// I/O, a mirror, file systems for zoned disks, and file systems whose functions are in a module.
pub const FOR_TESTS: &str =
    "scsi_debug sd_mod brd dm-multipath dm-round-robin raid1 btrfs zonefs xfs vfat nls_cp437 nls_ascii";

/// What a guest has in its root file system.
#[derive(Clone, Debug, Default)]
pub struct Content<'a> {
    /// The kernels whose modules the guest can load.
    pub kernels: Vec<&'a Kernel>,
    /// These modules, such as [`MODULES`].
    pub modules: Vec<&'a str>,
    /// The programs in its `PATH`, besides busybox. The one called `guest` is its first process.
    pub binaries: Vec<PathBuf>,
    /// Where its libraries and busybox are, if it is of another architecture than this machine.
    pub cross: Option<&'a Cross>,
    pub profile: &'a str,
    /// More files: their paths in the guest, and their content.
    pub files: Vec<(&'a str, Vec<u8>)>,
    /// Files and links of this machine, and their paths in the guest.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

/// Writes an initramfs. The same content gives the same bytes.
pub fn write(image: &Path, content: &Content) -> Result<()> {
    let cannot = || format!("cannot write the guest's image {}", image.display());
    let busybox = busybox(content.cross)?;
    let file = fs::File::create(image).or_cause(cannot())?;
    let mut archive = Archive { out: BufWriter::new(file), names: BTreeSet::new(), inode: 0 };

    for folder in ["proc", "sys", "dev", "tmp", "mnt", "root"] {
        archive.folder(Path::new(folder)).or_cause(cannot())?;
    }
    let programs: Vec<_> = content.binaries.iter().chain([&busybox]).collect();
    for program in &programs {
        let name = program.file_name().unwrap_or_default();
        archive.copy(program, &Path::new("bin").join(name))?;
    }
    for (file, place) in libraries(content.cross, &programs)? {
        archive.copy(&file, place.strip_prefix("/").unwrap_or(&place))?;
    }
    archive.link("bin/guest", Path::new("init")).or_cause(cannot())?;
    let passwd: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n";
    let files = content.files.iter().map(|(path, bytes)| (*path, &bytes[..]));
    let own = [
        ("root/.profile", content.profile.as_bytes()),
        ("etc/passwd", passwd),
        ("etc/group", b"root:x:0:\n"),
    ];
    for (path, bytes) in own.into_iter().chain(files) {
        archive.file(Path::new(path), 0o644, bytes).or_cause(cannot())?;
    }

    for (from, to) in &content.copies {
        let cannot = || format!("cannot read {}", from.display());
        let kind = fs::symlink_metadata(from).or_cause(cannot())?;
        if archive.names.contains(to) {
            continue;
        } else if kind.is_symlink() {
            let to_path = fs::read_link(from).or_cause(cannot())?;
            archive.link(to_path.to_str().unwrap_or_default(), to).or_cause(cannot())?;
        } else {
            let mode = if kind.mode() & 0o100 == 0 { 0o644 } else { 0o755 };
            let content = fs::read(from).or_cause(cannot())?;
            archive.file(to, mode, &content).or_cause(cannot())?;
        }
    }

    for kernel in &content.kernels {
        let Some(modules) = &kernel.modules else { continue };
        let release = modules.file_name().map(PathBuf::from).unwrap_or_default();
        let guest = Path::new("lib/modules").join(release);
        let dependencies =
            fs::read_to_string(modules.join("modules.dep")).or_cause("cannot read modules.dep")?;
        for module in closure(&dependencies, &content.modules) {
            archive.copy(&modules.join(&module), &guest.join(&module))?;
        }
        archive.copy(&modules.join("modules.dep"), &guest.join("modules.dep"))?;
    }
    archive.end().or_cause(cannot())
}

/// What the guest's shell prints when it starts.
pub const PROFILE: &str = r#"cat <<'END'
This is a real kernel in an emulated machine. Nothing you do here can hurt yours.

  stage01 &          start a stage in the background; `fg` and Ctrl-C to end it
  io write /mnt/f    eight direct writes to a file on ext4; see: io --help
  ls /bin            stages, the workload tool and busybox

/mnt is ext4 on an NVMe disk, /dev/scratch an NVMe disk without file system, /dev/part a partition of a third.
`exit` ends the machine.
END
echo "Kernel $(uname -r)"
"#;

fn busybox(cross: Option<&Cross>) -> Result<PathBuf> {
    cross.map_or_else(|| BUSYBOX.find(), |cross| cross::program(cross, BUSYBOX.name))
}

/// The command that makes the guest's file system in the file that is its last argument.
pub fn mke2fs() -> Result<Command> {
    let mut command = MKE2FS.command()?;
    // If this file does not exist, this machine's settings don't count, such as other options for mount.
    command.env("MKE2FS_CONFIG", "/nonexistent/mke2fs.conf").args(["-q", "-F"]).args(FS_OPTIONS.split(' '));
    Ok(command)
}

/// What a guest with these programs has from others: busybox, and the libraries.
pub fn works_of_others(binaries: &[PathBuf], cross: Option<&Cross>) -> Result<Vec<PathBuf>> {
    let busybox = busybox(cross)?;
    let libraries = libraries(cross, &binaries.iter().collect::<Vec<_>>())?;
    Ok([busybox].into_iter().chain(libraries.into_iter().map(|(file, _)| file)).collect())
}

/// The shared libraries and the loader that programs need: each file, and its place in the guest.
///
/// They are in the system's own folders, or in one that a program itself names. This machine's loader may take others for its own programs: from
/// `LD_LIBRARY_PATH`, from `/usr/local/lib`, or those for a processor that the emulator isn't. The guest can't find or run
/// these.
fn libraries(cross: Option<&Cross>, programs: &[&PathBuf]) -> Result<BTreeSet<(PathBuf, PathBuf)>> {
    let (root, arch) = cross.map_or((Path::new("/"), Arch::HERE), |cross| (&*cross.root, cross.arch));
    let mut found = BTreeSet::new();
    let mut left: Vec<_> = programs.iter().map(|program| (*program).clone()).collect();
    while !left.is_empty() {
        let (names, folders) = needed(&std::mem::take(&mut left))?;
        for name in names {
            let Some(library) = library(root, &cross::debian(arch), &folders, &name) else {
                // What we compare with comes with its own libraries.
                if programs.iter().any(|program| program.ends_with(&name)) {
                    continue;
                }
                return Err(missing(root, &name));
            };
            // The loader must be where the program looks for it.
            let place = match name.starts_with('/') {
                true => PathBuf::from(&name),
                false => Path::new("/").join(library.strip_prefix(root).unwrap_or(&library)),
            };
            if found.insert((library.clone(), place)) {
                left.push(library);
            }
        }
    }
    Ok(found)
}

/// The names of the libraries that programs and libraries need themselves, with the paths of the programs' loaders; and the
/// folders of their own in which they look for them.
fn needed(files: &[PathBuf]) -> Result<(BTreeSet<String>, Vec<String>)> {
    let mut readelf = READELF.command()?;
    readelf.env("LC_ALL", "C").args(["--wide", "--dynamic", "--program-headers"]).args(files);
    // For a script, readelf prints an error and fails.
    let shown = readelf.output().or_cause("cannot start readelf")?;
    let shown = String::from_utf8_lossy(&shown.stdout);
    let after = |line: &str, begins: &[&str]| {
        let begin = begins.iter().find_map(|begin| line.split_once(begin));
        begin.and_then(|(_, rest)| rest.split(']').next()).map(str::to_owned)
    };
    // [Requesting program interpreter: PATH], and (NEEDED) Shared library: [NAME].
    let names = shown.lines().filter_map(|line| after(line, &["program interpreter: ", "Shared library: ["]));
    // (RUNPATH) Library runpath: [FOLDER].
    let folders = shown.lines().filter_map(|line| after(line, &["Library runpath: ["]));
    Ok((names.collect(), folders.collect()))
}

/// The library of this name, or the loader of this path, below a root folder. `debian` is Debian's name for its folders, and
/// `folders` are those of a program.
fn library(root: &Path, debian: &str, folders: &[String], name: &str) -> Option<PathBuf> {
    let places = ["", "lib", "usr/lib", "lib64", "usr/lib64"].map(|place| root.join(place));
    let own = folders.iter().map(|folder| root.join(folder.trim_start_matches('/')));
    let folders = places.iter().flat_map(|place| [place.join(debian), place.clone()]).chain(own);
    let files = folders.map(|folder| folder.join(name.trim_start_matches('/')));
    // An absolute link is meant for the guest, where this folder is the root.
    let mut files = files.map(|file| match file.read_link() {
        Ok(to) if to.is_absolute() => root.join(to.strip_prefix("/").unwrap_or(&to)),
        _ => file,
    });
    files.find(|file| file.is_file())
}

fn missing(root: &Path, name: &str) -> Error {
    let root = root.display().to_string();
    let fix = match &*root {
        "/" => "install your system's package that has it; the guest gets no libraries from other folders, such as /usr/local/lib"
            .to_owned(),
        root => format!("remove this folder, and the lab makes it again: rm -r {root}"),
    };
    Error::new(format!("the guest's programs need the library {name}, which is missing"))
        .evidence(format!("the system's folders below {root} don't have it"))
        .fix(fix)
}

/// The files of modules and of all their dependencies, from the lines `FILE: NEEDED...` of `modules.dep`.
fn closure(dependencies: &str, names: &[&str]) -> BTreeSet<PathBuf> {
    let of = |name: &&str| {
        let file = format!("/{name}.ko:");
        let line = dependencies
            .lines()
            .find(|line| line.split(' ').next().is_some_and(|first| first.ends_with(&file)));
        line.unwrap_or_default().split_whitespace().map(|path| PathBuf::from(path.trim_end_matches(':')))
    };
    names.iter().flat_map(of).collect()
}

/// A newc archive, the format that the kernel unpacks.
struct Archive<W: Write> {
    out: W,
    /// Everything that is in it.
    names: BTreeSet<PathBuf>,
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn entry(&mut self, path: &Path, kind: ModeFileType, mode: u32, content: &[u8]) -> std::io::Result<()> {
        self.inode += 1;
        self.names.insert(path.to_owned());
        let name = path.to_str().unwrap_or_default();
        let header = Builder::new(name).ino(self.inode).mode(mode).set_mode_file_type(kind);
        let mut entry = header.write(&mut self.out, content.len() as u32);
        entry.write_all(content)?;
        entry.finish().map(drop)
    }

    fn folder(&mut self, path: &Path) -> std::io::Result<()> {
        if path.as_os_str().is_empty() || self.names.contains(path) {
            return Ok(());
        }
        path.parent().map_or(Ok(()), |parent| self.folder(parent))?;
        self.entry(path, ModeFileType::Directory, 0o755, &[])
    }

    fn file(&mut self, path: &Path, mode: u32, content: &[u8]) -> std::io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))?;
        self.entry(path, ModeFileType::Regular, mode, content)
    }

    fn link(&mut self, to: &str, path: &Path) -> std::io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))?;
        self.entry(path, ModeFileType::Symlink, 0o777, to.as_bytes())
    }

    fn copy(&mut self, from: &Path, to: &Path) -> Result<()> {
        let content = fs::read(from).or_cause(format!("cannot read {}", from.display()))?;
        self.file(to, 0o755, &content).or_cause(format!("cannot add {} to the guest's image", from.display()))
    }

    fn end(mut self) -> std::io::Result<()> {
        trailer(&mut self.out)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_all_they_need() {
        let dep = "kernel/fs/configfs/configfs.ko:\n\
            kernel/drivers/block/null_blk/null_blk.ko: kernel/fs/configfs/configfs.ko\n\
            kernel/drivers/block/brd.ko:\n";
        let files: Vec<_> = closure(dep, &["null_blk"]).into_iter().collect();
        assert_eq!(files.len(), 2);
        assert!(files[0].ends_with("null_blk.ko") && files[1].ends_with("configfs.ko"));
        assert!(closure(dep, &["nvme"]).is_empty(), "what is built in has no file");
    }

    /// As on a machine whose owner has installed another zlib, and whose processor has its own one.
    #[test]
    fn libraries_are_the_systems_own() {
        let root = tempfile::tempdir().unwrap();
        let debian = "x86_64-linux-gnu";
        let make = |file: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        make("usr/local/lib/libz.so.1");
        make(&format!("usr/lib/{debian}/glibc-hwcaps/x86-64-v4/libz.so.1"));
        assert_eq!(library(root.path(), debian, &[], "libz.so.1"), None);
        let fedoras = make("usr/lib64/libz.so.1");
        assert_eq!(library(root.path(), debian, &[], "libz.so.1"), Some(fedoras));
        let debians = make(&format!("usr/lib/{debian}/libz.so.1"));
        assert_eq!(library(root.path(), debian, &[], "libz.so.1"), Some(debians));
        let own = make("usr/lib/ceph/libceph.so.2");
        let folders = ["/usr/lib/ceph".to_owned()];
        assert_eq!(library(root.path(), debian, &folders, "libceph.so.2"), Some(own));
        let error = missing(Path::new("/"), "libelf.so.1").to_string();
        assert!(error.contains("libelf.so.1") && error.contains("/usr/local/lib"), "{error}");

        let (peer, its) = (root.path().join("peer"), root.path().join("libpeer.so.1"));
        let link = |arguments: &[&str], file: &Path| {
            let mut cc = Command::new("cc");
            let mut child =
                cc.args(["-shared", "-xc", "/dev/null"]).args(arguments).arg("-o").arg(file).spawn().unwrap();
            assert!(child.wait().unwrap().success());
        };
        link(&["-Wl,-soname,libpeer.so.1"], &its);
        link(&["-Wl,--no-as-needed", "-xnone", &its.display().to_string()], &peer);
        assert!(libraries(None, &[&peer]).unwrap_err().to_string().contains("libpeer.so.1"));
        libraries(None, &[&peer, &its]).unwrap();

        let found = libraries(None, &[&std::env::current_exe().unwrap()]).unwrap();
        let places: Vec<_> = found.iter().map(|(_, place)| place.display().to_string()).collect();
        for name in ["/ld-linux-", "/libc.so.6", "/libgcc_s.so.1"] {
            assert!(places.iter().any(|place| place.contains(name)), "{name}: {places:?}");
        }
    }

    #[test]
    fn the_guests_file_system_is_the_same_whatever_this_machines_settings_are() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("mke2fs.conf");
        fs::write(
            &settings,
            "[defaults]\nbase_features = sparse_super\ndefault_mntopts = journal_data\nblocksize = 4096\n\
             inode_size = 128\ninode_ratio = 65536\nreserved_ratio = 20.0\n",
        )
        .unwrap();
        let made = |command: &mut Command, name: &str| {
            let disk = folder.path().join(name);
            fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
            let uuid = "6c616200-0000-4000-8000-000000000000";
            command.env("E2FSPROGS_FAKE_TIME", "1500000000");
            assert!(command.args(["-U", uuid]).arg(&disk).output().unwrap().status.success());
            fs::read(disk).unwrap()[1024..2048].to_vec()
        };
        let ours = made(&mut mke2fs().unwrap(), "ours");
        let theirs = made(mke2fs().unwrap().env("MKE2FS_CONFIG", &settings), "theirs");
        // The super block: how many inodes, blocks and reserved blocks; a block's size; an inode's size; the features.
        for (what, at) in [("counts", 0..12), ("block", 24..28), ("inode", 88..90), ("features", 92..104)] {
            assert_eq!(ours[at.clone()], theirs[at], "{what}");
        }
        // The options for mount can't be named: those of e2fsprogs itself.
        assert_eq!(ours[256..260], 0xc_u32.to_le_bytes(), "user_xattr and acl");
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_only_once() {
        let mut archive = Archive { out: Vec::new(), names: BTreeSet::new(), inode: 0 };
        archive.file(Path::new("a/b/c"), 0o644, b"x").unwrap();
        archive.link("c", Path::new("a/b/d")).unwrap();
        let (mut names, mut rest) = (Vec::new(), &archive.out[..]);
        while !rest.is_empty() {
            let entry = cpio::newc::Reader::new(rest).unwrap();
            names.push(entry.entry().name().to_owned());
            rest = entry.finish().unwrap();
        }
        assert_eq!(names, ["a", "a/b", "a/b/c", "a/b/d"]);
    }
}

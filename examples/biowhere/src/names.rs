//! Names for what the kernel knows by number: files and control groups.

use std::collections::HashMap;
use std::fs;
use std::hash::Hash;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use common::events::{printable, text};
use toolkit::flags::Flags;

use crate::bpf::types;

common::record!(types::name { kind, pad, dentry, parent, text });

/// How many folders a file is in, at most. More come only from an entry that the kernel has used again.
const LEVELS: usize = 64;

/// Names that were made before. Most I/Os are of few tasks, disks and kinds, and to make a name costs as much as all else.
#[derive(Debug)]
struct Made<K, N>(HashMap<K, N>);

impl<K, N> Default for Made<K, N> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, N: Clone> Made<K, N> {
    /// How many it keeps, because there may be any number of tasks.
    const MOST: usize = 1000;

    fn get(&mut self, key: K, make: impl FnOnce(&K) -> N) -> N {
        if let Some(name) = self.0.get(&key) {
            return name.clone();
        }
        if self.0.len() == Self::MOST {
            self.0.clear();
        }
        let name = make(&key);
        self.0.insert(key, name.clone());
        name
    }
}

/// The kind of an I/O.
#[derive(Clone, Debug)]
pub struct Kind {
    pub operation: Rc<str>,
    /// The names of its flags, such as `Metadata-Sync`.
    pub flags: Rc<str>,
}

/// Files by their entry (`struct dentry`), and control groups by their id; and what else has names.
#[derive(Debug, Default)]
pub struct Names {
    flags: Flags,
    tasks: Made<[i8; 16], Rc<str>>,
    disks: Made<[i8; 32], Rc<str>>,
    /// By the flags, and whether it moves no data.
    kinds: Made<(u32, bool), Kind>,
    /// A name and the folder that it is in.
    entries: HashMap<u64, (String, u64)>,
    cgroups: HashMap<u64, Option<Rc<str>>>,
    mounts: HashMap<u32, Option<String>>,
}

impl Names {
    pub fn new(flags: Flags) -> Self {
        Self { flags, ..Self::default() }
    }

    pub fn task(&mut self, comm: [i8; 16]) -> Rc<str> {
        self.tasks.get(comm, |comm| text(comm).into())
    }

    pub fn disk(&mut self, name: [i8; 32]) -> Rc<str> {
        self.disks.get(name, |name| text(name).into())
    }

    /// Whoever wants a flush alone submits an empty write.
    pub fn kind(&mut self, flags: u32, is_empty: bool) -> Kind {
        self.kinds.get((flags, is_empty), |_| {
            let names = self.flags.names(flags);
            let is_flush = is_empty && names.split('-').any(|flag| flag == "Preflush");
            let operation = self.flags.operation(flags).to_lowercase();
            Kind { operation: if is_flush { "flush".into() } else { operation.into() }, flags: names.into() }
        })
    }

    /// Learns a name.
    pub fn add(&mut self, name: &types::name) {
        self.entries.insert(name.dentry, (text(&name.text), name.parent));
    }

    /// File systems come and go.
    pub fn forget_mounts(&mut self) {
        self.mounts.clear();
    }

    /// The path of a file on the file system with this number. A file system that is not mounted here gives a path from
    /// its own root, with its number.
    pub fn file(&mut self, entry: u64, device: u32) -> Option<String> {
        let mut path = String::new();
        let mut at = entry;
        for _ in 0..LEVELS {
            let (name, parent) = self.entries.get(&at)?;
            if *parent == at {
                let mount = self.mounts.entry(device).or_insert_with(|| mount_point(&mountinfo(), device));
                return Some(match mount.as_deref() {
                    Some("/") => path,
                    Some(mount) => format!("{mount}{path}"),
                    None => format!("[{}:{}]{path}", device >> 20, device & 0xf_ffff),
                });
            }
            path.insert_str(0, &format!("/{name}"));
            at = *parent;
        }
        None
    }

    /// The path of a control group below the root of their file system. One that is gone, or is not of version 2, has
    /// none.
    pub fn cgroup(&mut self, id: u64) -> Option<Rc<str>> {
        if id == 0 {
            return None;
        }
        if !self.cgroups.contains_key(&id)
            && let Some(root) = cgroup_root(&mountinfo())
        {
            add_cgroups(&root, &root, &mut self.cgroups);
        }
        self.cgroups.entry(id).or_default().clone()
    }
}

/// A group's id is the number of its folder.
fn add_cgroups(root: &Path, folder: &Path, found: &mut HashMap<u64, Option<Rc<str>>>) {
    let Ok(metadata) = fs::metadata(folder) else { return };
    let path = folder.strip_prefix(root).unwrap_or(folder);
    found.insert(metadata.ino(), Some(printable(&format!("/{}", path.display())).into()));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_cgroups(root, &entry.path(), found);
        }
    }
}

fn mountinfo() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()).into_owned()
}

/// Where the file system with this number is mounted as a whole, by a text such as that of `/proc/self/mountinfo`.
fn mount_point(mountinfo: &str, device: u32) -> Option<String> {
    let number = format!("{}:{}", device >> 20, device & 0xf_ffff);
    mountinfo.lines().find_map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        (*words.get(2)? == number && *words.get(3)? == "/").then(|| unescape(words.get(4)?))?
    })
}

fn cgroup_root(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| unescape(mount.split(' ').nth(4)?).map(PathBuf::from))?
    })
}

/// The kernel writes blanks and the like as `\040`.
fn unescape(path: &str) -> Option<String> {
    let mut parts = path.split('\\');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(3)?;
        text.push(u8::from_str_radix(code, 8).ok()? as char);
        text += rest;
    }
    Some(printable(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 259:0 /sub /bound rw - ext4 /dev/nvme0n1 rw
23 1 259:0 / /my\\040disk rw,relatime shared:1 - ext4 /dev/nvme0n1 rw
24 1 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";

    #[test]
    fn a_path_begins_where_the_whole_file_system_is_mounted() {
        assert_eq!(mount_point(MOUNTS, 259 << 20).as_deref(), Some("/my disk"));
        assert_eq!(mount_point(MOUNTS, 7), None);
        assert_eq!(cgroup_root(MOUNTS), Some(PathBuf::from("/sys/fs/cgroup")));
        let mut names = Names::default();
        names.mounts.insert(1, Some("/mnt".to_owned()));
        names.mounts.insert(2, Some("/".to_owned()));
        for (entry, name, parent) in [(10, "/", 10), (11, "folder", 10), (12, "file", 11), (13, "lost", 99)] {
            names.entries.insert(entry, (name.to_owned(), parent));
        }
        assert_eq!(names.file(12, 1).as_deref(), Some("/mnt/folder/file"));
        assert_eq!(names.file(12, 2).as_deref(), Some("/folder/file"));
        assert_eq!(names.file(12, 259 << 20).map(|path| path.ends_with("/folder/file")), Some(true));
        // A folder of which we know nothing: rather none than half a path.
        assert_eq!((names.file(13, 1), names.file(0, 1)), (None, None));
    }
}

//! `LICENSES.txt` of a room kit: whose work the kit contains, under which license and in exactly which version, and
//! how to get its source.
//!
//! Whoever hands out a kit distributes Linux and busybox, and the GPL requires two things of them: the license's
//! text, and the source or an offer of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{MetadataCommand, Package};
use common::{Error, OrCause, Result};
use machine::host::tools::output;
use machine::kernels::Kernel;
use machine::lock::Lock;
use machine::workbook::{Cross, Workbook};
use wire::arch::Arch;

/// The text before the file's lists.
const ABOUT: &str = "\
What is in this kit, under which license, and where its source is

The workbook itself is in sources.tar.xz: Rust code under MIT or Apache-2.0, as you like, and BPF programs under GPL-2.0.

The kit also contains the Debian packages and the Rust libraries listed below, unchanged. You may copy the kit and give it to
others under the same terms. Linux and busybox are under the GNU General Public License, so whoever gave you the kit also owes
you their source, for three years and for no more than the cost of copying it. Ask them, or take it from Debian: on a Debian
system `apt-get source PACKAGE=VERSION` fetches it, and Debian's snapshot archive keeps every version.
";

/// What a guest has from others.
pub struct ThirdParty<'a> {
    /// The guest's architecture.
    pub arch: Arch,
    pub kernels: &'a [Kernel],
    /// Its programs and libraries, each a file of a Debian package.
    pub files: Vec<PathBuf>,
    /// What built it, if it isn't for this machine's architecture.
    pub cross: Option<&'a Cross>,
    /// The folder with the packages of the workshop's compilers, if the guest has them.
    pub compilers: Option<PathBuf>,
}

/// The content of the file.
pub fn text(workbook: &Workbook, guests: &[ThirdParty<'_>]) -> Result<String> {
    let mut text = format!("{ABOUT}\nDebian packages, by the name of their source\n\n");
    let lock = Lock::read()?;
    let mut copyrights = BTreeMap::new();
    for guest in guests {
        for kernel in guest.kernels {
            let Some(package) = &kernel.package else { continue };
            let source = lock.kernel(kernel.arch, &kernel.name)?.source.source_package();
            let (arch, name) = (guest.arch, &kernel.name);
            let _ = writeln!(
                text,
                "  {source} {}  {arch}/vmlinuz-{name} and its modules: GPL-2.0",
                package.version
            );
        }
        let root = guest.cross.map_or(Path::new("/"), |cross| &cross.root);
        for (package, files) in packages(root, &guest.files)? {
            let (source, version) = (&package.source, &package.version);
            let _ = writeln!(text, "  {source} {version}  for {}: {}", guest.arch, files.join(", "));
            let copyright = root.join("usr/share/doc").join(&package.name).join("copyright");
            let copyright =
                fs::read_to_string(&copyright).or_cause(format!("cannot read {}", copyright.display()))?;
            copyrights.insert(format!("{source} {version}"), copyright);
        }
        if let Some(root) = &guest.compilers {
            for (package, names) in all_packages(root)? {
                let (source, version) = (&package.source, &package.version);
                let _ = writeln!(
                    text,
                    "  {source} {version}  for {}'s workshop: {}",
                    guest.arch,
                    names.join(", ")
                );
                let folder = root.join("usr/share/doc");
                // Packages of the same source may share a folder of documentation.
                let found = names
                    .iter()
                    .find_map(|name| fs::read_to_string(folder.join(name).join("copyright")).ok());
                if let Some(copyright) = found {
                    copyrights.insert(format!("{source} {version}"), copyright);
                }
            }
        }
    }
    let has_workshop = guests.iter().any(|guest| guest.compilers.is_some());

    text.push_str(
        "\nRust libraries, compiled into the stages and tools, besides Rust's own (MIT OR Apache-2.0)\n\n",
    );
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for library in libraries(workbook, has_workshop)? {
        let license = library.license.as_deref().unwrap_or("see below");
        let _ = writeln!(text, "  {} {}  {license}", library.name, library.version);
        for notice in notices(&library)? {
            texts.entry(notice).or_default().push(library.name.clone());
        }
    }
    heading(&mut text, "The GNU General Public License, version 2");
    text.push_str(include_str!("../../../../LICENSE-GPL-2.0"));
    for (package, copyright) in copyrights {
        heading(&mut text, &package);
        text.push_str(&copyright);
    }
    for (notice, libraries) in texts {
        heading(&mut text, &libraries.join(", "));
        text.push_str(&notice);
    }
    if has_workshop {
        heading(&mut text, "The scripts of the workshop's page");
        text.push_str(include_str!("../../../workshop/page/licenses.txt"));
    }
    Ok(text)
}

fn heading(text: &mut String, what: &str) {
    let _ = write!(text, "\n\n{}\n{what}\n\n", "=".repeat(80));
}

/// An installed Debian package.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Installed {
    source: String,
    version: String,
    name: String,
}

/// The packages that these files below a root folder belong to, each with the names of its files.
fn packages(root: &Path, files: &[PathBuf]) -> Result<BTreeMap<Installed, Vec<String>>> {
    let mut packages = BTreeMap::<_, Vec<_>>::new();
    for file in files {
        let name = owner(root, file)?;
        let mut query = dpkg_query(root);
        query.args(["--show", "--showformat", "${source:Package}\n${source:Version}\n${Package}\n", &name]);
        let found = output(&mut query)?.stdout;
        let found = String::from_utf8_lossy(&found).into_owned();
        let [source, version, name] =
            found.lines().map(str::to_owned).collect::<Vec<_>>().try_into().map_err(|lines| {
                Error::new(format!("dpkg-query does not name the source of {name}"))
                    .evidence(format!("{lines:?}"))
            })?;
        let file = file.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
        packages.entry(Installed { source, version, name }).or_default().push(file);
    }
    Ok(packages)
}

/// All packages below a root folder, each source with their names.
fn all_packages(root: &Path) -> Result<BTreeMap<Installed, Vec<String>>> {
    let mut query = dpkg_query(root);
    query.args(["--show", "--showformat", "${source:Package} ${source:Version} ${Package}\n"]);
    let listed = String::from_utf8_lossy(&output(&mut query)?.stdout).into_owned();
    let mut packages = BTreeMap::<_, Vec<_>>::new();
    for line in listed.lines() {
        let [source, version, name] = line
            .split(' ')
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| Error::new("dpkg-query does not name the source of a package").evidence(line))?;
        packages.entry(Installed { source, version, name: String::new() }).or_default().push(name);
    }
    Ok(packages)
}

/// dpkg-query(1) for the packages below a root folder.
fn dpkg_query(root: &Path) -> Command {
    let mut query = Command::new("dpkg-query");
    query.arg("--admindir").arg(root.join("var/lib/dpkg"));
    query
}

/// The package that contains a file. On a merged `/usr`, a file has two names, and dpkg knows only one of them.
fn owner(root: &Path, file: &Path) -> Result<String> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let [path, real] = [file, &real].map(|file| Path::new("/").join(file.strip_prefix(root).unwrap_or(file)));
    let in_usr = Path::new("/usr").join(path.strip_prefix("/").unwrap_or(&path));
    let bare = path.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_default();
    let found = dpkg_query(root).arg("--search").args([path, real, in_usr, bare]).output();
    let found = found.or_cause("cannot start dpkg-query, which knows where the kit's parts come from")?;
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    lines.lines().find_map(|line| Some(line.split_once(": ")?.0.to_owned())).ok_or_else(|| {
        Error::new(format!("no Debian package has {}", file.display()))
            .evidence(String::from_utf8_lossy(&found.stderr))
            .fix("make the kit on Debian or Ubuntu: it must name the source of all that it contains")
    })
}

/// The texts of a Rust library that its users must pass on.
fn notices(library: &Package) -> Result<Vec<String>> {
    let cannot = || format!("cannot read the licenses of {}", library.name);
    let folder = library.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
    let mut texts = Vec::new();
    for entry in folder.read_dir().or_cause(cannot())? {
        let path = entry.or_cause(cannot())?.path();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().to_uppercase();
        let is_notice =
            ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|begin| name.starts_with(begin));
        if path.is_file() && is_notice {
            texts.push(fs::read_to_string(&path).or_cause(cannot())?.replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}

/// The libraries by others that are part of the kit's programs.
fn libraries(workbook: &Workbook, has_workshop: bool) -> Result<Vec<Package>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut tree = Command::new(cargo);
    tree.current_dir(&workbook.root).args(["tree", "--quiet", "--edges", "normal", "--prefix", "none"]);
    let of_workshop = ["lab", "workshop", "common_build"].into_iter().filter(|_| has_workshop);
    tree.args(
        ["ask", "guest", "mystery"].into_iter().chain(of_workshop).flat_map(|package| ["--package", package]),
    );
    tree.args(workbook.catalog.programs().flat_map(|program| ["--package", program.package()]));
    let listed = output(&mut tree)?.stdout;
    // NAME vVERSION; some lines have more words.
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let listed: BTreeSet<_> =
        listed.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let metadata = MetadataCommand::new().manifest_path(workbook.root.join("Cargo.toml")).exec();
    let mut libraries = metadata.or_cause("cannot ask Cargo about the libraries")?.packages;
    let is_part = |library: &Package| listed.contains(&format!("{} v{}", library.name, library.version));
    libraries.retain(|library| library.source.is_some() && is_part(library));
    libraries.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(libraries)
}

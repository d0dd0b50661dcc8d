//! The workbook as Cargo sees it: the stages and examples that it has, and how to build them.

use std::env;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Message, MetadataCommand, Package};
use common::{Error, OrCause, Result};
use wire::arch::Arch;
use wire::catalog::{Catalog, Program};

use crate::cross;
use crate::host::folders;
use crate::host::tools::output;
use crate::signals;
use crate::workbook::{Toolchain, Workbook, recorded};

/// Cargo's profile for the room kit.
const SMALL: &str = "kit";

impl Workbook {
    /// Asks Cargo for the workbook. In a room kit's guest, a file has it.
    pub fn read() -> Result<Self> {
        if let Some(workbook) = recorded::workbook()? {
            return Ok(workbook);
        }
        let mut cargo = MetadataCommand::new();
        // Cargo says so to what it runs. As a constant, the folder would be in the programs of a kit.
        if let Some(package) = env::var_os("CARGO_MANIFEST_DIR") {
            cargo.manifest_path(PathBuf::from(package).join("Cargo.toml"));
        }
        let metadata = cargo.no_deps().exec().or_cause("cannot ask Cargo about the workspace");
        let metadata =
            metadata.map_err(|error| error.fix("type `cargo lab` in your clone of this project"))?;
        let (mut stages, mut examples) = (Vec::new(), Vec::<Program>::new());
        for package in &metadata.packages {
            let folder = package.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
            for (kind, programs) in [("stage", &mut stages), ("example", &mut examples)] {
                let described = described(package, kind)?;
                programs.extend(described.map(|program| Program { folder: folder.clone(), ..program }));
            }
        }
        stages.sort_by_key(|stage| stage.number);
        examples.sort_by_key(Program::name);
        Ok(Self {
            root: metadata.workspace_root.clone().into(),
            mine: mine(metadata.workspace_root.as_std_path()),
            target: metadata.target_directory.into(),
            catalog: Catalog { stages, examples },
            toolchain: Toolchain::Cargo,
        })
    }

    /// Builds everything that a learner uses in a guest and returns the binaries. Cargo prints to stderr if it has anything
    /// to report.
    pub fn build(&self) -> Result<Vec<PathBuf>> {
        self.build_programs(&["mystery"], self.catalog.programs(), "dev")
    }

    /// The same with Cargo's profile `kit`, which makes small binaries.
    pub fn build_small(&self) -> Result<Vec<PathBuf>> {
        // In the guest of a kit, nobody can build what is wanted later.
        self.build_programs(&["mystery", "ask", "lab"], self.catalog.programs(), SMALL)
    }

    /// Builds what runs in every guest, and of the stages and examples only these.
    pub fn build_only(&self, programs: &[&Program]) -> Result<Vec<PathBuf>> {
        self.build_programs(&[], programs.iter().copied(), "dev")
    }

    /// Builds only what runs in every guest, and no stage or example.
    pub fn build_tools(&self) -> Result<Vec<PathBuf>> {
        self.build_only(&[])
    }

    /// Builds `blkbook`, which has all stages and examples and needs no library. Returns the binary.
    pub fn build_static(&self) -> Result<PathBuf> {
        let mut command = self.cargo_build();
        let mut flags = format!("{}\x1f-Ctarget-feature=+crt-static", self.remap_paths());
        if self.cross().is_none() {
            // A library that runs in the compiler can't be static, so Cargo must know these flags as those of a target.
            command.args(["--target", &cross::target(Arch::HERE)]);
            // Since Debian 13, libelf needs zstd, too, and libbpf-sys doesn't link it. rustc's last words to the linker are that
            // dynamic libraries may follow.
            let libraries = output(Command::new("pkg-config").args(["--static", "--libs-only-l", "libelf"]))?;
            let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
            let more = libraries.split_whitespace().filter(|library| !["-lelf", "-lz"].contains(library));
            flags.extend(more.map(|library| format!("\x1f-Clink-arg=-Wl,-Bstatic\x1f-Clink-arg={library}")));
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", flags);
        command.args(["--quiet", "--profile", SMALL, "--package", "blkbook"]);
        Ok(self.compile(command, &["blkbook".to_owned()], "blkbook does not compile")?.remove(0))
    }

    /// The command `cargo build`, in the workbook's folder and for its architecture.
    pub fn cargo_build(&self) -> Command {
        let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        command.current_dir(&self.root).arg("build").arg("--target-dir").arg(self.target_folder());
        // Instead of the user's own flags: a guest's processor may lack what `-C target-cpu=native` makes use of.
        command.env("CARGO_ENCODED_RUSTFLAGS", "");
        if let Some(cross) = self.cross() {
            if let Some(triple) = &cross.triple {
                command.args(["--target", triple]);
            }
            command.envs(cross.environment.iter().cloned());
        }
        command
    }

    /// Where Cargo puts what it builds. Another compiler makes it for another architecture, so it has another folder.
    fn target_folder(&self) -> PathBuf {
        self.cross().map_or_else(|| self.target.clone(), |cross| self.target.join(cross.arch.name()))
    }

    /// Builds what runs in every guest, these other programs of the lab, and these stages and examples.
    fn build_programs<'a>(
        &self,
        others: &[&str],
        programs: impl Iterator<Item = &'a Program>,
        profile: &str,
    ) -> Result<Vec<PathBuf>> {
        if self.is_in_guest() {
            return Err(Error::new("the workshop can't boot a guest")
                .evidence("it runs in a guest itself, which has no emulator")
                .fix("type this command in a clone of the workbook, on your own system"));
        }
        let mut command = self.cargo_build();
        command.args(["--quiet", "--profile", profile]);
        let others =
            [("guest", "io"), ("guest", "guest")].into_iter().chain(others.iter().map(|name| (*name, *name)));
        let others = others.map(|(package, binary)| (package, binary.to_owned()));
        let mut names = Vec::new();
        for (package, binary) in others.chain(programs.map(|program| (program.package(), program.binary()))) {
            command.args(["--package", package, "--bin", &binary]);
            names.push(binary);
        }
        if profile == SMALL {
            command.env("CARGO_ENCODED_RUSTFLAGS", self.remap_paths());
        }
        self.compile(command, &names, "the workbook does not compile")
    }

    /// Runs a command that compiles, and returns the programs of these names. Only Cargo knows where it puts them, because the
    /// user's own settings may name another folder.
    pub fn compile(&self, mut cargo: Command, names: &[String], cause: &str) -> Result<Vec<PathBuf>> {
        cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
        let mut cargo = cargo.spawn().or_cause("cannot start cargo")?;
        let messages = cargo.stdout.take().ok_or_else(|| Error::new("cargo has no pipe"))?;
        let mut made: Vec<PathBuf> = Vec::new();
        for message in Message::parse_stream(BufReader::new(messages)) {
            if let Message::CompilerArtifact(artifact) = message.or_cause("cannot read what Cargo says")? {
                made.extend(artifact.executable.map(PathBuf::from));
            }
        }
        if !cargo.wait().or_cause("cannot wait for cargo")?.success() {
            // Ctrl-C ends cargo, too.
            signals::check()?;
            folders::check_owner(&[&self.target, &self.mine])?;
            return Err(Error::new(cause)
                .evidence("the compiler's errors above")
                .fix("fix the first error, or look at what you changed: git diff"));
        }
        let find = |name: &String| made.iter().find(|file| file.file_name() == Some(name.as_ref())).cloned();
        let none = |name| Error::new(format!("cargo made no program {name}"));
        names.iter().map(|name| find(name).ok_or_else(|| none(name))).collect()
    }

    /// The flags with which rustc leaves this machine's folders out of the binaries, where panic messages name source
    /// files. So a kit made elsewhere has the same bytes, and does not reveal whose home it was made in. If two
    /// prefixes match, the last one applies.
    pub fn remap_paths(&self) -> String {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let folders =
            [(home.as_deref(), "cargo"), (Some(&*self.root), "workbook"), (Some(&*self.target), "target")];
        let flags = folders
            .iter()
            .filter_map(|(from, to)| Some(format!("--remap-path-prefix={}={to}", (*from)?.display())));
        flags.collect::<Vec<_>>().join("\x1f")
    }

    /// Where Cargo puts the binaries of [`Workbook::build`]: where this program is, if Cargo made it in the same way.
    pub fn binaries(&self) -> PathBuf {
        let ours = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
        let ours = ours.filter(|folder| folder.starts_with(&self.target) && folder.ends_with("debug"));
        let triple = self.cross().and_then(|cross| cross.triple.as_deref());
        match ours {
            Some(folder) if self.cross().is_none() => folder,
            _ => self.target_folder().join(triple.unwrap_or_default()).join("debug"),
        }
    }

    /// Where the lab remembers facts about this machine.
    pub fn state_dir(&self) -> PathBuf {
        self.target.join("lab")
    }
}

/// The metadata of a stage or an example in a package's `Cargo.toml`, if it is one.
fn described(package: &Package, kind: &str) -> Result<Option<Program>> {
    let metadata = package.metadata.get(kind).cloned().map(serde_json::from_value).transpose();
    metadata.or_cause(format!("{}: [package.metadata.{kind}] is malformed", package.manifest_path))
}

/// The folder `mine`, unless a test uses another one in order not to touch what somebody works on.
fn mine(root: &Path) -> PathBuf {
    std::env::var_os("LAB_MINE").map_or_else(|| root.join("mine"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As in a home whose owner has set up Cargo for other work.
    #[test]
    fn the_users_own_settings_of_cargo_neither_hide_a_program_nor_change_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let triple = cross::target(Arch::HERE);
        let flags = r#"rustflags = ["--cfg", "own"]"#;
        write(
            ".cargo/config.toml",
            &format!("[build]\ntarget = {triple:?}\n{flags}\n[target.{triple}]\n{flags}\n"),
        );
        write("own/Cargo.toml", "[package]\nname = \"tool\"\nversion = \"0.1.0\"\n[workspace]\n");
        write("own/src/main.rs", "#[cfg(own)] compile_error!(\"their flags\"); fn main() {}\n");
        // What an earlier build has left.
        write("own/target/debug/tool", "old");
        let own = root.path().join("own");
        let workbook = Workbook { target: own.join("target"), root: own, ..Workbook::read().unwrap() };
        let build = || workbook.compile(workbook.cargo_build(), &["tool".to_owned()], "it does not compile");
        let built = build().unwrap().remove(0);
        assert!(built.ends_with(format!("{triple}/debug/tool")), "{}", built.display());
        assert!(Command::new(&built).status().unwrap().success());
        write("own/src/main.rs", "no Rust");
        assert_eq!(build().unwrap_err().cause(), "it does not compile");
    }
}

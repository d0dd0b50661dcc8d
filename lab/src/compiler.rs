//! Compiles single BPF programs: those of the verifier clinic, and what a learner writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Error, OrCause, Result};
use machine::workbook::{Recorded, Workbook};

/// Compiles BPF programs.
#[derive(Debug)]
pub struct Compiler {
    /// The program, if it is not that of the workshop's guest.
    program: Option<PathBuf>,
    /// Where the objects are.
    folder: PathBuf,
}

impl Compiler {
    /// Builds the program that compiles, for objects in this folder.
    pub fn new(workbook: &Workbook, folder: &Path) -> Result<Self> {
        if workbook.is_in_guest() {
            return Ok(Self::built(workbook, folder));
        }
        let mut cargo = workbook.cargo_build();
        cargo.args(["--quiet", "--package", "clinic"]);
        let cause = "what compiles BPF programs does not compile itself";
        let program = workbook.compile(cargo, &["clinic".to_owned()], cause)?.pop();
        Ok(Self { program, folder: folder.to_owned() })
    }

    /// The same, but it is there: the workshop has it.
    pub fn built(workbook: &Workbook, folder: &Path) -> Self {
        let program = (!workbook.is_in_guest()).then(|| workbook.binaries().join("clinic"));
        Self { program, folder: folder.to_owned() }
    }

    /// Compiles a program, and returns the file of its object, which is called `NAME.bpf.o`.
    pub fn compile(&self, name: &str, file: &str, source: &str) -> Result<PathBuf> {
        let folder = machine::host::folders::temporary().or_cause("cannot make a folder for a program")?;
        fs::write(folder.path().join(file), source).or_cause(format!("cannot write {file}"))?;
        self.compile_file(name, &folder.path().join(file))
    }

    /// The same for a program that is in a file.
    pub(crate) fn compile_file(&self, name: &str, source: &Path) -> Result<PathBuf> {
        let file = source.file_name().unwrap_or_default();
        let cannot = || format!("cannot compile {}", file.display());
        fs::create_dir_all(&self.folder).or_cause(cannot())?;
        let folder = tempfile::tempdir_in(&self.folder).or_cause(cannot())?;
        let folder = folder.path();
        let mut command = self.program.as_ref().map_or_else(Recorded::bpf_compiler, Command::new);
        let done = command.arg(source).arg(folder).output().or_cause(cannot())?;
        if !done.status.success() {
            return Err(Error::new(format!("{} does not compile", file.display()))
                .evidence(String::from_utf8_lossy(&done.stderr)));
        }
        let object = self.folder.join(format!("{name}.bpf.o"));
        fs::rename(folder.join(file).with_extension("o"), &object).or_cause(cannot())?;
        Ok(object)
    }
}

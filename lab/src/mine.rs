//! Files of lines in `mine`, which commands that run at the same time share.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};

use common::{OrCause, Result};
use machine::workbook::Workbook;
use nix::fcntl::{Flock, FlockArg};

/// Changes the lines of a file in `mine`. Others that change or read it at the same time wait.
pub fn change_lines<T>(
    workbook: &Workbook,
    name: &str,
    change: impl FnOnce(&mut Vec<String>) -> T,
) -> Result<T> {
    let path = workbook.mine.join(name);
    let changed = || -> std::io::Result<T> {
        fs::create_dir_all(&workbook.mine)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let result = change(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        Ok(result)
    };
    changed().or_cause(format!("cannot write {}", path.display()))
}

/// The lines of a file in `mine`; none if it does not exist.
pub fn read_lines(workbook: &Workbook, name: &str) -> Result<Vec<String>> {
    let path = workbook.mine.join(name);
    let read = || -> std::io::Result<String> {
        let mut file = Flock::lock(File::open(&path)?, FlockArg::LockShared).map_err(|(_, error)| error)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    };
    match read() {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).or_cause(format!("cannot read {}", path.display())),
    }
}

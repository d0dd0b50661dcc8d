//! Compiles a learner's BPF program while they type, so that the editor marks its errors.
//!
//! There is one compilation at a time, of the newest text: a newer one ends it, and so do a run and a check. In the
//! workshop's guest, where it would share the kernel with what a learner traces, it waits until nothing runs there. Its
//! files are in memory, and it starts no bio in any case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use common::{OrCause, Result};
use machine::host::folders;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::sync::{Mutex, oneshot, watch};

use crate::diagnostics::{Diagnostic, Reader};
use crate::terminals::Command;

/// How often we look whether the guest is free.
const PAUSE: Duration = Duration::from_millis(500);

/// What the compiler says about a program.
#[derive(Debug, Serialize)]
pub struct Compiled {
    /// Whether it compiles.
    compiles: bool,
    diagnostics: Vec<Diagnostic>,
}

/// The compilations.
#[derive(Debug)]
pub struct Background {
    /// Changes whenever the running one is to end.
    newest: watch::Sender<()>,
    turn: Arc<Mutex<()>>,
    /// The driver, if compiling must wait until it does not run.
    driver: Option<PathBuf>,
}

impl Background {
    /// None yet. With a driver, each waits until no process runs that program.
    pub fn new(driver: Option<PathBuf>) -> Self {
        Self { newest: watch::channel(()).0, turn: Arc::default(), driver }
    }

    /// Ends the one that runs.
    pub fn cancel(&self) {
        self.newest.send_replace(());
    }

    /// Compiles with this command. `None` if it was ended, which it also is if nobody waits for it any more.
    pub async fn compile(&self, command: Command) -> Option<Result<Compiled>> {
        self.cancel();
        let mut newest = self.newest.subscribe();
        let (turn, driver) = (self.turn.clone(), self.driver.clone());
        let (mut answer, answered) = oneshot::channel();
        let work = async move {
            let _turn = turn.lock().await;
            while driver.as_ref().is_some_and(|driver| runs(driver)) {
                tokio::time::sleep(PAUSE).await;
            }
            compile(command).await
        };
        tokio::spawn(async move {
            let compiled = tokio::select! {
                compiled = work => compiled,
                _ = newest.changed() => return,
                () = answer.closed() => return,
            };
            // The page may have gone.
            let _ = answer.send(compiled);
        });
        answered.await.ok()
    }
}

/// Whether a process runs this program.
fn runs(program: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|process| process.path().join("exe"))
        .any(|exe| fs::read_link(exe).is_ok_and(|exe| exe == program))
}

/// Ends the process group of a compiler when it goes.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended meanwhile.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

async fn compile(Command { argv, folder, .. }: Command) -> Result<Compiled> {
    // A compiler that is killed leaves its files behind.
    let scratch = folders::temporary().or_cause("cannot make a folder for the compiler")?;
    // What the learner does comes first. Debian's busybox has no nice, and the guest has nothing else.
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "renice -n 10 $$ > /dev/null 2>&1; exec \"$@\"", "sh"]).args(argv);
    command.current_dir(folder).env("TMPDIR", scratch.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.process_group(0).kill_on_drop(true).spawn().or_cause("cannot start the compiler")?;
    let mut group = Group(child.id().and_then(|id| id.try_into().ok()).map(Pid::from_raw));
    let done = child.wait_with_output().await.or_cause("cannot wait for the compiler")?;
    group.0 = None;
    let mut reader = Reader::default();
    for line in String::from_utf8_lossy(&done.stderr).lines() {
        reader.read(line);
    }
    Ok(Compiled { compiles: done.status.success(), diagnostics: reader.found })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn it_waits_until_the_driver_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let driver = folder.path().join("driver");
        let copied = std::process::Command::new("cp").arg("/bin/sleep").arg(&driver).status().unwrap();
        assert!(copied.success());
        // A child of another thread may still have the new file open for writing.
        let mut running =
            std::process::Command::new("sh").arg("-c").arg("exec \"$0\" 1000").arg(&driver).spawn().unwrap();
        while !runs(&driver) {}
        let argv = ["sh".to_owned(), "-c".to_owned(), format!("! kill -0 {}", running.id())];
        let argv = argv.into_iter().map(Into::into).collect();
        let command = Command { argv, folder: folder.path().to_owned(), shown: None };
        let background = Background::new(Some(driver.clone()));
        let mut compiled = pin!(background.compile(command));
        // It looks again and again whether the driver runs, and it does.
        assert!(tokio::time::timeout(PAUSE * 3, &mut compiled).await.is_err(), "it did not wait");
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(compiled.await.unwrap().unwrap().compiles);
    }
}

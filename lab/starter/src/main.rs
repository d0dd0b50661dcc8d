//! What `cargo lab`, `cargo class` and `cargo upkeep` start: it compiles that program if that is needed, says so if it takes more
//! than a moment, and becomes the program. Its first argument is the program's name.
//!
//! It has no dependencies, so Cargo itself compiles it in a moment, without a word.

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// After this time without a word, people wonder.
const MOMENT: Duration = Duration::from_secs(1);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().ok_or("name a program: lab, class or upkeep")?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let ours = std::env::current_exe()?;
    // Where Cargo builds, a makefile may not find what it needs. The set-up knows, and says what to do.
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-".contains(byte);
    if !ours.as_os_str().as_encoded_bytes().iter().all(is_safe)
        && !Command::new("sh").arg(format!("{root}/lab/setup")).arg("path").status()?.success()
    {
        return Ok(ExitCode::FAILURE);
    }
    let (done, is_done) = mpsc::channel::<()>();
    let notice = thread::spawn(move || {
        if is_done.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("Compiling the lab. The first time, this takes about a minute ...");
        }
    });
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    let status = build
        .args(["build", "--quiet", "--manifest-path", &format!("{root}/Cargo.toml"), "--package"])
        .arg(&name)
        .arg("--bin")
        .arg(&name)
        // As the lab compiles what it shares with its guests, and not with the user's own flags.
        .env("CARGO_ENCODED_RUSTFLAGS", "")
        .status()?;
    drop(done);
    // It can't fail.
    let _ = notice.join();
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    Err(Command::new(ours.with_file_name(name)).args(arguments).exec().into())
}

//! The workshop's server: the book, an editor, terminals, Run and Check in one tab of a browser.
//!
//! It runs where the stages are compiled. It does nothing that the driver can't do in a terminal: the exercises are those
//! of `cargo lab exercise`, and Run and Check are the driver's own commands, each in a terminal that the page shows.
//!
//! The browser's side is in `page/`, in TypeScript. The bundles `workshop.js`, `workshop.css` and `frame.js` are committed, so only
//! somebody who changes the page needs npm: `make page` checks the sources and bundles them again. With
//! `PICTURES=docs/src make page-test`, the test also makes the picture in the book's chapter.
//!
//! `make workshop` makes a kit with the workshop's image, an initramfs that holds everything: compilers, sources, compiled
//! libraries, the book, this server. There, `cargo lab` is the same program as elsewhere: it reads in `/etc/workbook.json`
//! that it is in the workshop, and then runs programs right there, instead of in a guest that it boots.
//!
//! | file | does |
//! |---|---|
//! | `lab/class/src/compilers.rs` | fetches the compilers; `packages.txt` in their folder, `workshop-ARCH` in the cache, lists versions and checksums |
//! | `lab/class/src/workshop.rs` | compiles the libraries with them, and makes the image |
//! | `lab/workshop/guest` | is what only this guest has: its shell's profile, the command `cargo` |
//! | `lab/guest/src/workshop.rs` | starts the network card and the server in the guest |
//! | `lab/machine/src/workbook/recorded.rs` | compiles a learner's program there, without Cargo |
//! | `lab/workshop/src/backup.rs` | sends the learner's work to the host, and restores it |
//! | `lab/class/kit/keep` | keeps the work on the host |
//! | `lab/class/kit/lab` | is the launcher's side |

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod actions;
mod app;
mod archive;
mod asking;
mod auth;
mod backup;
mod compile;
mod diagnostics;
mod dictionary;
mod instance;
mod pages;
mod response;
mod server;
mod terminals;
mod words;
mod work;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use nix::fcntl::OFlag;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::auth::Auth;
use crate::backup::WorkBackup;
use crate::instance::{Claim, Instance};
use crate::server::Workshop;

/// Serve the workshop on this machine, and print its address
#[derive(Parser)]
#[command(name = "workshop", version)]
struct Args {
    /// The driver, which runs stages and checks exercises
    #[arg(long, value_name = "PROGRAM")]
    driver: PathBuf,
    /// The folder of the book
    #[arg(long, value_name = "DIR")]
    book: PathBuf,
    /// The port [default: one that is free]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Don't open the address in a browser
    #[arg(long)]
    no_browser: bool,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// A file or a serial port that gets the line `url URL` as soon as the workshop answers
    #[arg(long, value_name = "FILE")]
    announce: Option<PathBuf>,
    /// The kernel that runs, as the launcher calls it
    #[arg(long, value_name = "KERNEL", requires = "announce")]
    kernel: Option<String>,
    /// The kernels that the launcher can boot into the same page
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', requires = "kernel")]
    kernels: Vec<String>,
    /// Where the host keeps your work
    #[arg(long, value_name = "ADDRESS:PORT")]
    keep: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let workbook = Workbook::read()?;
    // It also has the port and the secrets of the last session, so it comes before the claim.
    let backup = args.keep.map(|host| Arc::new(WorkBackup::restore(&workbook.mine, host)));
    let instance = match Instance::claim(&workbook.mine)? {
        Claim::Ours(instance) => instance,
        Claim::Theirs(auth) => {
            print_text(format_args!("The workshop is running already: {}", auth.url()))?;
            show(&auth, &workbook.mine, args.no_browser);
            return Ok(ExitCode::SUCCESS);
        }
    };
    let (listener, auth) = listen(args.listen, args.port, instance.before.as_ref()).await?;
    instance.announce(&auth)?;
    let app = App::new(workbook.clone())?;
    if let Some(backup) = &backup {
        // A failure is in the state, and the next request tries again.
        let _ = backup.store();
        backup.watch();
    }
    let workshop = Arc::new(Workshop::new(args, app, auth.clone(), backup.clone()));
    let args = &workshop.args;
    let handle = |kind| signal(kind).or_cause("cannot handle signals");
    let mut interrupt = handle(SignalKind::interrupt())?;
    let mut terminate = handle(SignalKind::terminate())?;
    let mut hangup = handle(SignalKind::hangup())?;
    let kept = match &backup {
        None => " What you wrote stays in mine/.",
        Some(backup) if backup.problem().is_none() => " The next start has what you wrote.",
        Some(_) => "",
    };
    print_text(format_args!("The workshop: {}\nCtrl-C ends it.{kept}", auth.url()))?;
    if let Some(file) = &args.announce {
        report(file, &format!("url {}", auth.url()))?;
    }
    show(&auth, &workbook.mine, args.no_browser);
    let app = server::router(workshop.clone());
    let mut goes_on = false;
    tokio::select! {
        () = auth::serve(listener, app) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        () = workshop.leaves.notified() => goes_on = true,
    }
    // Until its programs have ended, it still has the lock, but it answers nobody.
    instance.announce(&auth.over(goes_on))?;
    tokio::select! {
        () = workshop.terminals.end_all() => {}
        _ = interrupt.recv() => {}
    }
    // What the last programs wrote. A problem is on stderr, and the launcher must not say that the work is kept.
    if let Some(backup) = backup
        && (backup.store().is_err() || backup.problem().is_some())
    {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports something to whoever started us.
fn report(file: &Path, line: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let flags = OFlag::O_NOCTTY.bits();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(file);
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).or_cause(cannot())
}

/// Listens on this port, or if it is 0, on the one of the workshop before, or if that is not free, on any.
async fn listen(address: IpAddr, port: u16, before: Option<&Auth>) -> Result<(TcpListener, Auth)> {
    auth::check_port(port)?;
    let first = before.filter(|_| port == 0).map_or(port, |before| before.port);
    let mut listener = TcpListener::bind((address, first)).await;
    if listener.is_err() && first != port {
        listener = TcpListener::bind((address, port)).await;
    }
    let listener = listener.map_err(|error| {
        Error::new(format!("the workshop can't use port {port}"))
            .evidence(error)
            .fix("name another one with --port, or leave it out: the workshop then takes one that is free")
    })?;
    let port = listener.local_addr().or_cause("cannot find out the port")?.port();
    Ok((listener, Auth::new(port, before)?))
}

/// Opens the address in a browser. Without one, the user has the printed address. Other users of the machine can see
/// what programs are started with, so the browser gets the name of a private file that leads to the address. A browser
/// from a snap reads no hidden files.
fn show(auth: &Auth, mine: &Path, no_browser: bool) {
    if no_browser {
        return;
    }
    let file = mine.join(pages::ADDRESS);
    let page =
        format!("<meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={}\">\n", auth.url());
    let opened = write(&file, &page).and_then(|()| open::that_detached(&file));
    if let Err(error) = opened {
        eprintln!("warning: cannot open a browser: {error}\n  open the address above yourself");
    }
}

/// Writes a file that only its owner can read, in place of whatever has its name.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(file))?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}

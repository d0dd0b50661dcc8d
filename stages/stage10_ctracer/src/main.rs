//! Stage 10: which functions does a bio pass through, and when?

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs::File;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use common::preflight::Need;
use common::{OrCause, report};
use libbpf_rs::btf::Btf;
use stage10_ctracer::find::{self, List, Names};
use stage10_ctracer::record::{self, RecordArgs};
use stage10_ctracer::recording::Recording;
use stage10_ctracer::view::ShowArgs;

/// Follow every bio through every function of the kernel that takes one
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    record: RecordArgs,

    /// Keep the recording, to show it again with `show`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    show: ShowArgs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the functions that take an object of the class, and those that cannot be probed
    List {
        /// The class: the name of a struct
        #[arg(long, value_name = "NAME", default_value = "bio")]
        class: String,
    },
    /// Show a recording
    Show {
        /// What --output has kept
        file: PathBuf,
        #[command(flatten)]
        show: ShowArgs,
    },
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    match args.command {
        Some(Command::List { class }) => {
            common::init(&args.record)?;
            Need::Root.check()?;
            Need::Btf.check()?;
            let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
            let functions = find::find(&btf, &class, &Names::read()?)?;
            report::print(List { class: &class, functions: &functions })
        }
        Some(Command::Show { file, show }) => show.show(&file),
        None => {
            common::init(&args.record)?;
            // Gone at the end, unless it can't be shown.
            let mut scratch = tempfile::Builder::new()
                .prefix("ctracer-")
                .suffix(".rec")
                .tempfile()
                .or_cause("cannot make a file for the recording")?;
            let path = args.output.clone().unwrap_or_else(|| scratch.path().to_owned());
            let file = || {
                args.show.check(&args.record.class, &path)?;
                File::create(&path).or_cause(format!("cannot write {}", path.display()))
            };
            let shown = record::record(&args.record, file).and_then(|()| args.show.show(&path));
            if shown.is_err() && Recording::read(&path).is_ok_and(|recording| !recording.records.is_empty()) {
                scratch.disable_cleanup(args.output.is_none());
                eprintln!(
                    "The recording is kept. Show it: {} show {}",
                    env!("CARGO_BIN_NAME"),
                    path.display()
                );
            }
            shown
        }
    }
}

//! ctracer: which functions does a bio pass through, and how long does each take?

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use common::preflight::Need;
use common::{OrCause, report};
use ctracer::find::{self, List, Names};
use ctracer::record::{self, RecordArgs};
use ctracer::recording::Kept;
use ctracer::view::ShowArgs;
use libbpf_rs::btf::Btf;

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
            let (functions, _) = find::find(&btf, &class, Names::read)?;
            report::print_text(List { class: &class, functions: &functions })
        }
        Some(Command::Show { file, show }) => show.show(&file),
        None => {
            common::init(&args.record)?;
            let plan = record::plan(&args.record)?;
            args.show.check(&args.record.class, args.output.as_deref())?;
            let mut file = Kept::new(args.output)?;
            let shown = plan.record(&mut file).and_then(|()| args.show.show(file.path()));
            if shown.is_err() {
                file.keep();
            }
            shown
        }
    }
}

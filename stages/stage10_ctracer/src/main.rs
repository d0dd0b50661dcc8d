//! Stage 10: which functions does a bio pass through, and when?

use clap::{Parser, Subcommand};
use common::{OrCause, preflight::Need, report};
use libbpf_rs::btf::Btf;
use stage10_ctracer::find::{self, List, Names};
use stage10_ctracer::record::{self, RecordArgs};
use stage10_ctracer::recording;

/// Follow every bio through every function of the kernel that takes one
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    record: RecordArgs,
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, short)]
    output: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the functions that take an object of the class, and those that cannot be probed
    List {
        /// The class: the name of a struct
        #[arg(long, value_name = "NAME", default_value = "bio")]
        class: String,
    },
}

fn main() -> common::Result<()> {
    let args = Args::parse();
    common::init(&args.record)?;
    match args.command {
        Some(Command::List { class }) => {
            Need::Btf.check()?;
            let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
            let functions = find::find(&btf, &class, &Names::read()?)?;
            report::print(List { class: &class, functions: &functions })
        }
        None => {
            let path = args.output.unwrap_or("x.rec".into());
            let file = std::fs::File::create(&path).unwrap();
            record::record(&args.record, file)?;
            let r = recording::Recording::read(&path)?;
            let t = stage10_ctracer::tree::Tree::new(r);
            println!("{}", serde_json::to_string(&stage10_ctracer::view::json::View::of(&t)).unwrap());
            Ok(())
        }
    }
}

//! The options.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use common::args::{EventArgs, seconds};
use toolkit::output::Output;

use crate::summary::By;

/// Show where the time of each I/O went: before its request, in the queue, in the disk, at its end
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version)]
pub struct Args {
    /// Trace only this disk, such as nvme0n1, and what disks above it send there
    #[arg(short, long, value_name = "DISK")]
    pub disk: Option<String>,

    /// Trace only what this process submits, with all its threads
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub pid: Option<u32>,

    /// Trace only this operation, such as read, write or discard
    #[arg(long, value_name = "OPERATION")]
    pub op: Option<String>,

    /// Show the control group that pays for each I/O; with PATH, only the I/O of this group and of those in it
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "/")]
    pub cgroup: Option<String>,

    /// Show only I/Os that took longer than MS milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub slower_than: Option<Duration>,

    /// Print only the N slowest I/Os, at the end
    #[arg(long, value_name = "N", conflicts_with_all = ["summary", "lines"])]
    pub slowest: Option<usize>,

    /// Print percentiles in place of lines: at the end, or every SECS seconds
    #[arg(long, value_name = "SECS", num_args = 0..=1, value_parser = seconds)]
    pub summary: Option<Option<Duration>>,

    /// Make a summary for each of these
    #[arg(long, value_enum, default_value = "disk", requires = "summary")]
    pub by: By,

    /// Compare with an earlier summary, which is the output of --summary --json
    #[arg(long, value_name = "FILE", requires = "summary", conflicts_with = "json")]
    pub before: Option<PathBuf>,

    /// Print microseconds
    #[arg(long)]
    pub us: bool,

    #[command(flatten)]
    pub output: Output,

    #[command(flatten)]
    pub events: EventArgs,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms = text.parse::<f64>().ok().and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    ms.ok_or_else(|| "give a number of milliseconds, such as 20 or 0.5".to_owned())
}

//! The workload tool `io`, see [`lab::guest::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    let done = lab::shared::workload::Io::parse().run()?;
    lab::guest::workload::wait_for_threads()?;
    common::report::print_text(done)
}

//! The workload tool `io`, see [`guest::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    let done = guest::workload::run(&wire::workload::Io::parse())?;
    guest::workload::wait_for_threads()?;
    common::report::print_text(done)
}

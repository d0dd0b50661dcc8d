//! The workload tool `io`, see [`lab::guest::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    common::report::print_text(lab::shared::workload::Io::parse().run()?)
}

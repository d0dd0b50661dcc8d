//! The workload tool `io`, see [`lab::guest::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    println!("{}", lab::shared::workload::Io::parse().run()?);
    Ok(())
}

//! The workload tool `io`, see [`lab::shared::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    println!("{}", lab::shared::workload::Io::parse().run()?);
    Ok(())
}

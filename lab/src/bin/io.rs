//! The workload tool `io`, see [`lab::workload`].

use clap::Parser;

fn main() -> common::Result<()> {
    println!("{}", lab::workload::Io::parse().run()?);
    Ok(())
}

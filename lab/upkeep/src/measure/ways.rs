//! `cargo upkeep ways`: what each way to count and time bios costs, and how many it counts. It writes the data for the
//! chapter "One question, nine ways".

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result};
use machine::kernels::MATRIX;
use machine::vm::{Accel, Machine, Stream};
use machine::workbook::Workbook;
use wire::ways::{WAYS, Way};

use crate::measure::{self, binaries, toolbox};
use crate::publish::sync;
use crate::publish::ways::{HEAD, Ways, data};

/// How long a guest may take to boot, even on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
/// How long all ways may take in a guest.
const LIMIT: Duration = Duration::from_secs(1200);

/// Which ways to measure.
pub enum Which {
    /// Those of `lab/ways`.
    Ours,
    /// Other people's tools.
    Peers,
    /// Those with these names.
    Named(Vec<String>),
}

impl Which {
    fn has(&self, way: &Way) -> bool {
        match self {
            Self::Ours => !way.is_peer,
            Self::Peers => way.is_peer,
            Self::Named(names) => names.iter().any(|name| name == way.name),
        }
    }
}

/// On the host: boots these kernels twice, or each of the matrix, on a machine whose clock counts instructions and on a
/// normal one. Measures ways there, and replaces their data.
///
/// # Errors
/// If measuring fails in a guest.
pub fn run(workbook: &Workbook, kernels: &[String], which: &Which) -> Result<ExitCode> {
    // clang in bcc, and its headers in the page cache.
    const MEMORY: u32 = 3072;
    let ways: Vec<_> = WAYS.iter().filter(|way| which.has(way)).collect();
    if ways.is_empty() {
        let names: Vec<_> = WAYS.iter().map(|way| way.name).collect();
        return Err(Error::new("there is no such way").evidence(format!("there are: {}", names.join(", "))));
    }
    let peers = ways.iter().any(|way| way.is_peer);
    let ours = binaries(workbook, &["ways"])?;
    let tools = if peers { Some(toolbox::image()?) } else { None };
    let path = workbook.root.join(data(workbook.arch()));
    let old = fs::read_to_string(&path).unwrap_or_default();
    let mut rows = HEAD.to_owned();
    for series in MATRIX {
        let machine = |accel| -> Result<Machine> {
            let mut machine =
                Machine { accel, limit: BOOT_LIMIT, ..measure::machine(workbook, series.name)? };
            machine.binaries.extend(ours.clone());
            if peers {
                machine = Machine { tools: tools.clone(), memory: MEMORY, ..machine };
            }
            Ok(machine)
        };
        let is_wanted = kernels.is_empty() || kernels.iter().any(|kernel| kernel == series.name);
        let new = if is_wanted { Some(measure(series.name, machine, &ways)?) } else { None };
        for way in WAYS {
            let begin = format!("{}\t{}\t", series.name, way.name);
            let from = new.as_ref().filter(|_| which.has(way)).unwrap_or(&old);
            let row = from.lines().find(|line| line.starts_with(&begin));
            rows.extend(row.map(|row| format!("{row}\n")));
        }
    }
    fs::write(&path, rows).or_cause(format!("cannot write {}", path.display()))?;
    let ways = Ways::read(&workbook.root, workbook.arch())?;
    print_text(format!("{}\n{}", ways.costs(), ways.counts()).trim_end())?;
    eprint!("{}", sync::write(workbook, false)?);
    Ok(ExitCode::SUCCESS)
}

/// Measures ways on a kernel, in guests that have their programs, and returns their rows of the data.
fn measure(kernel: &str, machine: impl Fn(Accel) -> Result<Machine>, ways: &[&Way]) -> Result<String> {
    let names: Vec<_> = ways.iter().map(|way| way.name).collect();
    let rows = |accel, what| -> Result<Vec<String>> {
        eprintln!("Linux {kernel}: {what} ...");
        let argv = [&["measure", "ways", what], &*names].concat();
        let (mut guest, mut stdout) = (machine(accel)?.boot()?, Vec::new());
        guest.start(&argv, None)?;
        let status = guest.finish(Some(LIMIT), |stream, bytes| {
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => eprint!("{}", String::from_utf8_lossy(bytes)),
            }
            Ok(())
        })?;
        if status != 0 {
            return Err(Error::new(format!("{kernel} can't be measured")));
        }
        Ok(String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect())
    };
    let (costs, writers) = (rows(Accel::Icount, "costs")?, rows(Accel::Auto, "writers")?);
    let join = |(cost, counted): (&String, &String)| {
        let numbers = counted.split_once('\t').map_or("", |(_, numbers)| numbers);
        format!("{kernel}\t{cost}\t{numbers}\n")
    };
    Ok(costs.iter().zip(&writers).map(join).collect())
}

//! In the guest: loads the clinic's programs, and a learner's copies of them.

use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result, libbpf_log};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use verifier::{LEFT_OUT, REPORT};
use wire::disks::RAW_DEVICE;

use crate::running::io;
use crate::system::WithoutFs;

/// What libbpf and the verifier log about each of these objects; `None` if the kernel accepts it, and attaches it.
pub fn logs(objects: &[PathBuf]) -> Result<Vec<Option<String>>> {
    libbpf_log::capture(false);
    let log = |object: &PathBuf| {
        let done = load(&read(object)?).and_then(|loaded| attach(&loaded).map(drop));
        let log = shortened(&libbpf_log::take());
        Ok(done.is_err().then_some(log))
    };
    objects.iter().map(log).collect()
}

/// Loads and attaches an object, and compares what it counts with what `io` does. Returns what it counted.
///
/// # Errors
/// If the kernel refuses the object, with the explanation, or if it counts something else.
pub fn check(object: &Path) -> Result<String> {
    /// An event that comes in the middle of another kprobe's program is not counted, but that is rare.
    const TRIES: usize = 5;
    libbpf_log::capture(false);
    let _quiet = WithoutFs::new()?;
    let bytes = read(object)?;
    let unit = counter(object)?;
    let mut wrong = Error::new("it was never tried");
    for _ in 0..TRIES {
        let loaded = load(&bytes).map_err(|error| libbpf_log::explain(&error, &bytes))?;
        let links = attach(&loaded).map_err(|error| libbpf_log::explain(&error, &bytes))?;
        let write = || io(&["write", RAW_DEVICE, "--count", "40"]);
        // The second time, each sector was there before.
        let (done, again) = (write()?, write()?);
        drop(links);
        let expected = match &*unit {
            "bytes" => done.bytes + again.bytes,
            "repeats" => again.count,
            _ => done.count + again.count,
        };
        let counted = count(&loaded)?;
        if counted == expected {
            return Ok(format!("{counted} {unit}"));
        }
        wrong = Error::new(format!("it counts {counted} {unit}, and not {expected}")).evidence(format!(
            "io wrote {} bytes to {} places of {RAW_DEVICE}, and then again to the same places",
            done.bytes, done.count
        ));
    }
    Err(wrong)
}

fn read(object: &Path) -> Result<Vec<u8>> {
    fs::read(object).or_cause(format!("cannot read {}", object.display()))
}

fn load(object: &[u8]) -> libbpf_rs::Result<Object> {
    ObjectBuilder::default().name("clinic")?.open_memory(object)?.load()
}

fn attach(object: &Object) -> libbpf_rs::Result<Vec<Link>> {
    object.progs_mut().map(|program| program.attach()).collect()
}

/// The name of the program's only global variable, which is also the unit in which it counts.
fn counter(object: &Path) -> Result<String> {
    let btf = Btf::from_path(object)?;
    let variables = btf.type_by_name::<DataSec<'_>>(".bss");
    let mut names = variables.iter().flat_map(|all| all.iter()).filter_map(|variable| {
        btf.type_by_id::<Var<'_>>(variable.ty)
            .and_then(|variable| variable.name()?.to_str().map(str::to_owned))
    });
    match (names.next(), names.next()) {
        (Some(name), None) if ["bios", "bytes", "repeats", "writes"].contains(&&*name) => Ok(name),
        _ => Err(Error::new("your program needs one global variable, in which it counts")
            .evidence("the check reads bios, bytes, repeats or writes")
            .fix("keep the variable that was there, and add no other")),
    }
}

/// What the variable counted; of an array, the sum.
fn count(object: &Object) -> Result<u64> {
    let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
    let map = map.ok_or_else(|| Error::new("the program has no global variables"))?;
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok(numbers.iter().map(|bytes| u64::from_ne_bytes(*bytes)).sum())
}

/// A log without what is different each time, the addresses of maps, and without the middle if it is long. The verifier's
/// words are before the explanation of Linux 7.3, so this is shortened on its own.
fn shortened(log: &str) -> String {
    let log = log.trim();
    let (before, report) = log.split_at(log.find(REPORT).unwrap_or(log.len()));
    let lines = [before, report].map(|part| without_middle(part).join("\n"));
    without_addresses(&lines.join("\n")).trim().to_owned() + "\n"
}

fn without_middle(log: &str) -> Vec<&str> {
    const KEPT: usize = 100;
    let lines: Vec<_> = log.lines().filter(|line| !line.starts_with("verification time ")).collect();
    match lines.len() {
        count if count > 2 * KEPT => [&lines[..KEPT], &[LEFT_OUT], &lines[count - KEPT..]].concat(),
        _ => lines,
    }
}

fn without_addresses(log: &str) -> String {
    let mut parts = log.split("0xff");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let digits = part.chars().take_while(char::is_ascii_hexdigit).count();
        // A number such as 0xffffffff00000000 is not an address.
        let is_address = digits == 14 && !part.starts_with("ffffff");
        text + "0xff" + if is_address { "..." } else { &part[..digits] } + &part[digits..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_left_out() {
        let log = "r1 = 0xff1830dfc22d1800 ; R1=map_ptr umax=0xffffffff00000000\nr3 = 0xffff";
        assert_eq!(without_addresses(log), "r1 = 0xff... ; R1=map_ptr umax=0xffffffff00000000\nr3 = 0xffff");
    }
}

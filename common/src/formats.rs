//! The texts that an object's programs print with `bpf_printk()`, and a filter of the kernel for their lines.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys::{BPF_FUNC_trace_printk, BPF_FUNC_trace_vprintk};
use libbpf_rs::{MapCore, MapFlags, Object};

use crate::{Result, kernel};

/// The formats that the programs of a loaded object print; `None` if one of them isn't a constant of the object, such as
/// an array on the stack. Then we can't know it.
///
/// Each call's format is in the register `r1`. `bpf_printk()` puts it into `.rodata`, and a literal is in
/// `.rodata.str1.1`.
pub fn of(object: &Object) -> Result<Option<Vec<String>>> {
    // The instructions of include/uapi/linux/bpf.h.
    const CALL: u8 = 0x85;
    const WIDE_LOAD: u8 = 0x18;
    const AT_MAP_VALUE: u8 = 2;
    let mut formats = Vec::new();
    for program in object.progs().filter(|program| program.autoload()) {
        let insns = program.insns();
        for (at, insn) in insns.iter().enumerate() {
            let helper = if insn.code == CALL && insn.src_reg() == 0 { insn.imm as u32 } else { 0 };
            if ![BPF_FUNC_trace_printk, BPF_FUNC_trace_vprintk].contains(&helper) {
                continue;
            }
            // The classes LD, LDX, ALU and ALU64 write a register. The second half of a wide load has the code 0.
            let writes = |code: u8| code != 0 && [0, 1, 4, 7].contains(&(code & 7));
            let wrote = insns[..at].iter().rposition(|insn| insn.dst_reg() == 1 && writes(insn.code));
            let Some(&[low, high]) = wrote.and_then(|wrote| insns.get(wrote..wrote + 2)) else {
                return Ok(None);
            };
            let is_constant = |name: &OsStr| name.to_string_lossy().contains(".rodata");
            let map = object
                .maps()
                .find(|map| map.as_fd().as_raw_fd() == low.imm && is_constant(map.name()))
                .filter(|_| low.code == WIDE_LOAD && low.src_reg() == AT_MAP_VALUE);
            let Some(map) = map else { return Ok(None) };
            let constants = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
            let text = constants.get(high.imm as usize..).unwrap_or_default();
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            // What is no text, the kernel refuses.
            let format = text.iter().map(|byte| char::from(*byte)).collect();
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
    }
    Ok(Some(formats))
}

/// What the kernel refuses in a format when the program runs, such as `%f`; then it prints nothing.
pub fn refused(format: &str) -> Option<String> {
    refused_by(kernel::version(&kernel::release()), format)
}

/// As in `bpf_bprintf_prepare()`, and before Linux 5.13 in `bpf_trace_printk()`.
fn refused_by(kernel: (u32, u32), format: &str) -> Option<String> {
    let is_old = kernel < (5, 13);
    let is_text = |c: char| (' '..='~').contains(&c) || ('\t'..='\r').contains(&c);
    if let Some(other) = format.chars().find(|c| !is_text(*c)) {
        return Some(format!("the byte 0x{:02x}", u32::from(other)));
    }
    let mut parts = format.split('%').skip(1);
    while let Some(part) = parts.next() {
        if part.is_empty() && !is_old {
            // `%%`, and what follows it is text.
            if parts.next().is_some() {
                continue;
            }
        }
        let bare =
            part.trim_start_matches(['0', '+', '-', ' ']).trim_start_matches(|c: char| c.is_ascii_digit());
        let bare = if is_old { part } else { bare };
        let long = bare.strip_prefix('l').unwrap_or(bare);
        let number = long.strip_prefix('l').unwrap_or(long);
        let is_whole = !bare.chars().nth(1).is_some_and(|c| c.is_ascii_alphanumeric());
        let is_known = number.starts_with(['d', 'i', 'u', 'x'])
            || bare.starts_with('p')
            || bare.starts_with('s') && is_whole
            || !is_old && (number.starts_with('X') || bare.starts_with('c') && is_whole);
        if !is_known {
            let end = part.len() - bare.len() + bare.chars().next().map_or(0, char::len_utf8);
            return Some(format!("%{}", &part[..end]));
        }
    }
    None
}

/// The longest filter that the kernel takes.
const LONGEST_FILTER: usize = 4095;

/// The kernel's filter for the lines of these formats. It may let others' lines through, but it never loses a line of these
/// formats. `None` if it would let everything through.
pub fn filter(formats: &[String]) -> Option<String> {
    const BETWEEN: usize = "bpf_string ~ \"..*\" || ".len();
    // The kernel takes at most 255 bytes between the quotes (`MAX_FILTER_STR_VAL`).
    let longest = (LONGEST_FILTER / formats.len().max(1)).saturating_sub(BETWEEN).min(200);
    let mut patterns: Vec<_> = formats.iter().map(|format| pattern(format, longest)).collect();
    if patterns
        .iter()
        .any(|pattern| pattern.bytes().all(|byte| b"*? ".contains(&byte)) && !pattern.is_empty())
    {
        return None;
    }
    // Nothing of ours is empty; without a filter, we would get everybody's lines.
    if patterns.is_empty() {
        patterns.push(String::new());
    }
    let patterns = patterns.iter().map(|pattern| format!("bpf_string ~ \"{pattern}\""));
    Some(patterns.collect::<Vec<_>>().join(" || "))
}

/// What a line of this format looks like, as a pattern of the kernel's filter with not much more than `longest` bytes.
fn pattern(format: &str, longest: usize) -> String {
    let mut pattern = String::new();
    let mut chars = format.chars().peekable();
    while let Some(char) = chars.next() {
        if pattern.len() >= longest {
            return pattern + "*";
        }
        match char {
            '%' if chars.next_if_eq(&'%').is_some() => pattern.push('%'),
            // A conversion can be any text.
            '%' => {
                while chars.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
                while chars.next_if(|c| "hlzqLt".contains(*c)).is_some() {}
                // What follows %p says how to print what it points to.
                if chars.next() == Some('p') {
                    while chars.next_if(char::is_ascii_alphanumeric).is_some() {}
                }
                pattern.push('*');
            }
            // The filter gives these a meaning, the first ones at the beginning of a pattern.
            '!' | '0'..='9' if pattern.is_empty() => pattern.extend(['\\', char]),
            '\\' | '[' | '*' | '?' => pattern.extend(['\\', char]),
            ' ' | '!' | '#'..='~' => pattern.push(char),
            // A quotation mark would end it.
            _ => pattern.push('?'),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_for_each_format() {
        for (format, wanted) in [
            ("submit_bio(bio=0x%llx) called: %llu", "submit_bio(bio=0x*) called: *"),
            ("READ: %-16s %5d|%ps\n", "READ: * *|*?"),
            ("%d%% [%c] \"x\"?", r"*% \[*] ?x?\?"),
            ("1. try: %llu", r"\1. try: *"),
            ("!slow %llu", r"\!slow *"),
            ("*** %llu", r"\*\*\* *"),
            ("x", "x"),
            ("a\r\n", "a??"),
            ("%llu ns, 3 of 4!", "* ns, 3 of 4!"),
        ] {
            assert_eq!(pattern(format, 200), wanted);
        }
        assert_eq!([pattern("aaaaa", 3), pattern("****", 3)], ["aaa*", r"\*\**"]);
    }

    #[test]
    fn a_filter_for_all_formats() {
        let of =
            |formats: &[&str]| filter(&formats.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).unwrap(), r#"bpf_string ~ """#);
        assert_eq!(of(&["a", "b: %d"]).unwrap(), r#"bpf_string ~ "a" || bpf_string ~ "b: *""#);
        // Everybody's lines look like these.
        for format in ["%llu", "%d %d", "\t"] {
            assert_eq!(of(&["a", format]), None, "{format}");
        }
        let long: Vec<_> = (0..30).map(|nth| format!("{nth:02}{}", "a".repeat(168))).collect();
        assert!(filter(&long).unwrap().len() <= LONGEST_FILTER);
        assert_eq!(filter(&vec!["abc".to_owned(); 300]), None);
    }

    #[test]
    fn formats_that_the_kernel_refuses() {
        for (format, new, old) in [
            ("took %llu ns, 0x%lx %d %p %s %pks", None, None),
            ("took %f s", Some("%f"), Some("%f")),
            ("%5d%c", None, Some("%5")),
            ("100%% of %d", None, Some("%")),
            ("100% sure", Some("% s"), Some("% ")),
            ("%-10.2f", Some("%-10."), Some("%-")),
            ("%hhu", Some("%h"), Some("%h")),
            ("at the end: %", Some("%"), Some("%")),
            ("\x1b[31mred", Some("the byte 0x1b"), Some("the byte 0x1b")),
            ("\u{c3}\u{a9}", Some("the byte 0xc3"), Some("the byte 0xc3")),
        ] {
            let of = |kernel| refused_by(kernel, format);
            assert_eq!((of((6, 1)).as_deref(), of((5, 10)).as_deref()), (new, old), "{format}");
        }
    }
}

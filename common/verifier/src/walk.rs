//! A verifier's log step by step: the instructions on the path that it refused, what it knew about the registers, and
//! which instruction set each value.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::log::{Log, State};
use crate::object::{Location, Object};
use crate::paste::Pasted;

/// The path that the verifier refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Walk {
    /// The program.
    pub program: String,
    /// Whether the log lacks some of it.
    pub is_cut: bool,
    /// What is known before the first step.
    pub start: Registers,
    /// The instructions, in the order in which the verifier followed them.
    pub steps: Vec<Step>,
    /// What it says about the last of them.
    pub words: Vec<String>,
}

/// What the verifier knows about registers and places on the stack, such as `r7` and `fp-8`.
pub type Registers = BTreeMap<String, String>;

/// An instruction on the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its number in the program.
    pub instruction: u64,
    /// The instruction, such as `r1 = *(u64 *)(r7 +0)`.
    pub text: String,
    /// Its source line, if it is another one than that of the step before.
    pub source: Option<String>,
    /// Where that line is.
    pub location: Option<Location>,
    /// What it reads, such as `r7`, each with the number of the step in this list that set it, if the path shows that.
    pub reads: Vec<(String, Option<usize>)>,
    /// What the log shows after it.
    pub after: Registers,
}

/// The steps to a refusal, from libbpf's warnings and the objects that could contain the program. `None` if the verifier
/// had nothing to do with it, or refused the program before its first instruction.
pub fn walk(warnings: &str, objects: &[Object]) -> Option<Walk> {
    let pasted = Pasted::find(warnings)?;
    let log = Log::parse(&pasted)?;
    let object = crate::object_of(&log, objects);
    let mut known = Registers::new();
    log.start.apply(&mut known);
    let start = known.clone();
    let mut frames = vec![Frame::default()];
    let mut last_source = None;
    let mut steps = Vec::new();
    for (nth, step) in log.path.iter().enumerate() {
        let operation = step.operation();
        let effect = Effect::of(operation);
        let frame = frames.last()?;
        let mut reads: Vec<_> = effect.reads.iter().map(|read| (read.clone(), frame.setter(read))).collect();
        if effect.calls {
            // The arguments are what was set since the last call.
            reads = ARGUMENTS
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), Some(frame.setter(name)?))))
                .collect();
        }
        // The log does not repeat what this does to copies of the value.
        let changed = match effect.calls {
            true => Some("r1").filter(|_| RELEASES.iter().any(|name| operation.contains(name))),
            false => effect.reads.first().map(String::as_str).filter(|_| operation.starts_with("if ")),
        };
        if let Some(id) = changed.and_then(|name| known.get(name)).and_then(|value| reference(value)) {
            known.retain(|_, value| reference(value).as_ref() != Some(&id));
        }
        let frame = frames.last_mut()?;
        if effect.calls {
            ARGUMENTS.iter().for_each(|name| frame.forget(name, &mut known));
        }
        if let Some(set) = &effect.sets {
            frame.set.insert(set.clone(), nth);
            // Old kernels don't print what a copy is.
            let copied = effect.copies.then(|| known.get(effect.reads.first()?).cloned()).flatten();
            known.remove(set);
            known.extend(copied.map(|value| (set.clone(), value)));
        }
        if operation.starts_with("call pc") {
            frames.push(Frame::default());
        } else if operation == "exit" && frames.len() > 1 {
            let returned = frames.pop()?.setter("r0");
            frames.last_mut()?.set.extend(returned.map(|nth| ("r0".to_owned(), nth)));
        }
        add(step.shown(), &mut known);
        step.state.apply(&mut known);
        let source = step.source.filter(|source| last_source != Some(*source));
        last_source = step.source.or(last_source);
        let source = source.and_then(|nth| log.sources.get(nth));
        steps.push(Step {
            instruction: step.instruction,
            text: operation.to_owned(),
            location: source.and_then(|source| log.location(source, object)),
            source: source.map(|source| source.text.clone()),
            reads,
            after: known.clone(),
        });
    }
    let words = log.words.iter().map(|line| (*line).to_owned()).chain(log.reason()).collect();
    let is_cut = pasted.lines.iter().any(|line| line.starts_with("..."));
    (!steps.is_empty()).then(|| Walk { program: log.program.to_owned(), is_cut, start, steps, words })
}

/// The registers in which a function gets its arguments. A call leaves nothing in them.
const ARGUMENTS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];

/// What the names of functions have in common that give something back, which is no longer there then.
const RELEASES: [&str; 4] = ["bpf_ringbuf_submit", "bpf_ringbuf_discard", "_release", "_drop"];

/// What the copies of a pointer that may be NULL, or that must be given back, have in common: `ref_obj_id=2` or `id=1`.
fn reference(value: &str) -> Option<String> {
    let words = || value.split(['(', ',', ')']);
    let of = |name: &str| words().find(|word| word.starts_with(name)).map(str::to_owned);
    let is_it = value.contains("_or_null") || value.contains("mem(") || value.contains("ref_obj_id=");
    of("ref_obj_id=").or_else(|| of("id=")).filter(|_| is_it)
}

/// Which step set what in a function.
#[derive(Debug, Default)]
struct Frame {
    set: BTreeMap<String, usize>,
}

impl Frame {
    fn setter(&self, name: &str) -> Option<usize> {
        self.set.get(name).copied()
    }

    fn forget(&mut self, name: &str, known: &mut Registers) {
        self.set.remove(name);
        known.remove(name);
    }
}

/// What an instruction reads and sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub reads: Vec<String>,
    pub sets: Option<String>,
    calls: bool,
    /// Whether it only copies a register.
    copies: bool,
}

impl Effect {
    pub fn of(operation: &str) -> Self {
        if operation.starts_with("call ") {
            return Self { sets: Some("r0".to_owned()), calls: true, ..Self::default() };
        }
        if operation == "exit" {
            return Self { reads: vec!["r0".to_owned()], ..Self::default() };
        }
        let Some((to, from)) = operation.split_once("= ").filter(|_| !operation.starts_with("if ")) else {
            return Self { reads: registers(operation), ..Self::default() };
        };
        let to = to.trim_end();
        let place = stack_place(to);
        let mut reads = Vec::new();
        let is_register = to.starts_with(['r', 'w']);
        // `r6 +=` reads what it changes; `*(u64 *)(r6 +0) =` reads the pointer.
        if !(is_register && to.chars().all(char::is_alphanumeric) || place.is_some()) {
            reads.extend(registers(to));
        }
        match stack_place(from) {
            Some(place) => reads.push(place),
            None => reads.extend(registers(from)),
        }
        reads.dedup();
        let sets = if is_register { registers(to).into_iter().next() } else { place };
        let copies =
            operation.strip_prefix('r').is_some_and(|rest| rest.contains(" = r")) && !from.contains(' ');
        Self { reads, sets, calls: false, copies }
    }
}

/// The place on the stack that an instruction reads or writes: `fp-8` for `*(u64 *)(r10 -8)`.
pub(crate) fn stack_place(operand: &str) -> Option<String> {
    let (_, place) = operand.split_once("(r10 -")?;
    Some(format!("fp-{}", place.trim_end_matches(')')))
}

/// The registers in a text, each once.
fn registers(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let number = word.strip_prefix(['r', 'w']).and_then(|number| number.parse::<u8>().ok());
        if let Some(number) = number.filter(|number| *number < 10)
            && !found.contains(&format!("r{number}"))
        {
            found.push(format!("r{number}"));
        }
    }
    found
}

impl State<'_> {
    /// Adds what it shows to what is known.
    pub(crate) fn apply(&self, known: &mut Registers) {
        if self.is_whole {
            known.clear();
        }
        self.lines.iter().for_each(|line| add(line, known));
    }
}

/// Adds what a line shows, such as `R1=ctx() R7_w=scalar(umax=7,var_off=(0x0; 0x7)) fp-8=ptr_bio()`.
pub(crate) fn add(line: &str, known: &mut Registers) {
    let (mut depth, mut from) = (0, 0);
    let ends = line.char_indices().filter(|(_, c)| {
        depth += i32::from("({".contains(*c)) - i32::from(")}".contains(*c));
        *c == ' ' && depth == 0
    });
    let ends: Vec<_> = ends.map(|(at, _)| at).chain([line.len()]).collect();
    for end in ends {
        let word = line[from..end].trim();
        from = end;
        let Some((name, value)) = word.split_once('=') else { continue };
        let register = name.strip_prefix('R').map(|rest| rest.split('_').next().unwrap_or_default());
        let name = match register {
            Some(number) if number.parse::<u8>().is_ok() => format!("r{number}"),
            None if name.starts_with("fp-") => name.split('_').next().unwrap_or_default().to_owned(),
            _ => continue,
        };
        known.insert(name, value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(operation: &str) -> (Vec<String>, Option<String>) {
        let Effect { reads, sets, .. } = Effect::of(operation);
        (reads, sets)
    }

    #[test]
    fn an_instruction_reads_and_sets() {
        for (operation, reads, sets) in [
            ("r6 = r10", &[][..], Some("r6")),
            ("r6 += -8", &["r6"], Some("r6")),
            ("w1 += w2", &["r1", "r2"], Some("r1")),
            ("r1 = *(u64 *)(r7 +0)", &["r7"], Some("r1")),
            ("r1 = *(u64 *)(r10 -16)", &["fp-16"], Some("r1")),
            ("*(u64 *)(r10 -8) = r1", &["r1"], Some("fp-8")),
            ("*(u32 *)(r6 +8) = r1", &["r6", "r1"], None),
            ("lock *(u64 *)(r1 +0) += r2", &["r1", "r2"], None),
            ("if r6 == 0x0 goto pc+27", &["r6"], None),
            ("if r1 s<= r2 goto pc+1", &["r1", "r2"], None),
            ("goto pc+3", &[], None),
            ("exit", &["r0"], None),
            ("r1 = 0xff11", &[], Some("r1")),
            ("r2 = be32 r2", &["r2"], Some("r2")),
        ] {
            let expected = (reads.iter().map(|read| (*read).to_owned()).collect(), sets.map(str::to_owned));
            assert_eq!(effect(operation), expected, "{operation}");
        }
    }

    #[test]
    fn a_state_is_taken_apart() {
        let mut known = Registers::new();
        add(
            "5: frame1: R1=ctx(id=0,off=0) R7_w=scalar(umax=7,var_off=(0x0; 0x7)) fp-8_w=mmmm???? refs=2",
            &mut known,
        );
        let known: Vec<_> = known.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(known, ["fp-8 mmmm????", "r1 ctx(id=0,off=0)", "r7 scalar(umax=7,var_off=(0x0; 0x7))"]);
    }
}

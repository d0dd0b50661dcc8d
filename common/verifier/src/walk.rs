//! A verifier's log step by step: the instructions on the path that it refused, what it knew about the registers, and
//! which instruction set each value.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::log::{Log, State};
use crate::object::{Location, Object};
use crate::paste::Pasted;
use crate::registers::{Effect, Registers, add};

/// The path that the verifier refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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

/// An instruction on the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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

impl State<'_> {
    /// Adds what it shows to what is known.
    pub(crate) fn apply(&self, known: &mut Registers) {
        if self.is_whole {
            known.clear();
        }
        self.lines.iter().for_each(|line| add(line, known));
    }
}

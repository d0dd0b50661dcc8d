//! The verifier's log, taken apart: the instructions on the path that it refused, their source lines, and its words.

use crate::object::{Location, Object};
use crate::paste::Pasted;
use crate::pattern::Values;
use crate::registers::{self, Registers};

/// Takes the place of the middle of a log that the clinic recorded.
pub const LEFT_OUT: &str = "... (many lines are left out here)";

/// How the explanation of Linux 7.3 and newer begins. All other lines of it are indented or end in a colon.
pub const REPORT: &str = "Verification failed: ";

/// A source line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The line, without the space around it.
    pub text: String,
    /// Where it is, if the kernel says so.
    location: Option<Location>,
    /// The first instruction that follows it in the log.
    instruction: Option<u64>,
}

/// An instruction on the path.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub instruction: u64,
    /// The rest of its line: the instruction itself, and what the verifier knows about the registers then.
    text: &'a str,
    /// The number of its source line in the log.
    pub source: Option<usize>,
    /// It is a branch, and the verifier has come back to it for the other side.
    is_done: bool,
    /// What the log shows about registers on lines of its own, between this instruction and the next.
    pub state: State<'a>,
}

/// What a log shows about registers, in the order in which it shows it.
#[derive(Debug, Default)]
pub(crate) struct State<'a> {
    /// Whether this is all that is known, and what was known before is not.
    pub is_whole: bool,
    pub lines: Vec<&'a str>,
}

/// How far the end of a log is reached.
#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    /// Not yet.
    #[default]
    Ahead,
    /// An empty line has followed the words. If no instruction comes, the log was all.
    Near,
    /// The verifier has counted what it did. If an instruction comes, it is of another log.
    Passed,
}

/// Where a value comes from, as far as the path shows it.
#[derive(Debug)]
pub enum Origin<'a> {
    /// A call of this function returned it, in this source line.
    Call(&'a str, &'a Source),
    /// It was read from memory in this source line. Only the stack keeps pointers, so to the verifier it is a number, unless
    /// it knows the type of the memory.
    Memory(&'a Source, Box<Origin<'a>>),
    /// The program has it as a constant.
    Constant,
    /// It is the program's context.
    Context,
    /// The path does not show it.
    Unknown,
}

/// What became of a pointer.
#[derive(Debug, Default)]
pub struct Past<'a> {
    /// What the log last showed of it, such as `pkt(off=14,r=34)`. Then it became a number.
    pub was: Option<String>,
    /// What was called since then, the last call first, each with its source line.
    pub calls: Vec<(&'a str, Option<&'a Source>)>,
    /// Whether half of it was copied since then.
    pub is_cut: bool,
    /// It was no pointer at all, but this constant.
    pub constant: Option<(&'a str, Option<&'a Source>)>,
}

/// A verifier's log.
#[derive(Debug, Default)]
pub struct Log<'a> {
    /// The program; empty if nothing names it.
    pub program: &'a str,
    /// Whether somebody has marked where it begins.
    is_marked: bool,
    /// All its lines.
    lines: Vec<&'a str>,
    /// How far its end is reached.
    end: End,
    /// Its source lines, in the order in which they appear.
    pub(crate) sources: Vec<Source>,
    /// The path that the verifier refused.
    pub(crate) path: Vec<Step<'a>>,
    /// How many instructions of the path came before the last lines that were left out.
    gap: usize,
    /// What it knows about registers at the beginning.
    pub(crate) start: State<'a>,
    /// Its last lines: what it refused.
    pub words: Vec<&'a str>,
    /// The explanation of Linux 7.3 and newer, line by line.
    report: Vec<&'a str>,
}

impl<'a> Log<'a> {
    /// Takes a log apart; `None` if the verifier says nothing in it.
    pub fn parse(pasted: &'a Pasted) -> Option<Self> {
        let lines = pasted.lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty()).collect();
        let mut log =
            Self { program: &pasted.program, lines, is_marked: pasted.is_marked, ..Self::default() };
        pasted.lines.iter().for_each(|line| log.add(line));
        let says_something = !log.words.is_empty() || !log.report.is_empty();
        (says_something || pasted.has_failed).then_some(log)
    }

    /// Whether it is a log for sure, and not only lines that could be one.
    pub fn is_sure(&self) -> bool {
        self.is_marked || !self.path.is_empty()
    }

    /// A log of which only the verifier's words are left.
    pub fn of_words(words: Vec<&'a str>) -> Self {
        Self { words, ..Self::default() }
    }

    fn add(&mut self, line: &'a str) {
        let source = line.trim_start().strip_prefix(';');
        let goes_on = source.is_some() || instruction(line).is_some();
        match self.end {
            End::Passed if goes_on || line.starts_with("0: ") => {
                let lines = std::mem::take(&mut self.lines);
                *self = Self { program: self.program, is_marked: self.is_marked, lines, ..Self::default() };
            }
            End::Near if goes_on || line.starts_with("from ") => self.end = End::Ahead,
            _ => {}
        }
        let is_heading = !line.contains(' ') && line.ends_with(':') || line == "Causal path:";
        if line.starts_with(REPORT) || !self.report.is_empty() && (line.starts_with(' ') || is_heading) {
            // It has empty lines, and words can follow it.
            self.end = End::Ahead;
            self.report.push(line);
        } else if line.starts_with("processed ") {
            self.end = End::Passed;
        } else if line.trim().is_empty() || line.starts_with("```") {
            if self.end == End::Ahead && !self.words.is_empty() && self.report.is_empty() {
                self.end = End::Near;
            }
        } else if self.end != End::Ahead {
            // Somebody else's words.
        } else if line.starts_with("...") {
            // LEFT_OUT, or what people write.
            self.gap = self.path.len();
        } else if let Some(source) = source {
            self.words.clear();
            let source = Source::parse(source);
            if !source.text.is_empty() {
                self.sources.push(source);
            }
        } else if let Some((instruction, text)) = instruction(line) {
            self.words.clear();
            let source = self.sources.len().checked_sub(1);
            if let Some(last) = self.sources.last_mut() {
                last.instruction.get_or_insert(instruction);
            }
            self.path.push(Step { instruction, text, source, is_done: false, state: State::default() });
        } else if let Some((from, to)) = line.strip_prefix("from ").and_then(|line| line.split_once(" to ")) {
            self.words.clear();
            // The verifier follows one side of a branch to its end, and comes back to the last branch for the other.
            let is_branch = |step: &Step<'_>| step.instruction.to_string() == from && !step.is_done;
            if let Some(at) = self.path.iter().rposition(is_branch) {
                self.path.truncate(at + 1);
                self.path[at].is_done = true;
                self.path[at].state = State {
                    is_whole: true,
                    lines: to.split_once(": ").map(|(_, state)| state).into_iter().collect(),
                };
            }
        } else if is_state(line) {
            self.words.clear();
            self.path.last_mut().map_or(&mut self.start, |step| &mut step.state).lines.push(line);
        } else if !is_noise(line) {
            self.words.push(line.trim());
        }
    }

    /// Where a source line is. Older kernels print only its text, and then we look into the object.
    pub fn location(&self, source: &Source, object: Option<&Object>) -> Option<Location> {
        let found = || object?.locate(self.program, source.instruction, &source.text).cloned();
        source.location.clone().or_else(found)
    }

    /// The texts of the source lines.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| &*source.text)
    }

    /// The source line at which the verifier stopped.
    pub fn source(&self) -> Option<&Source> {
        self.sources.last()
    }

    /// The last branches on the path, each with the source line where the path continues. If a loop repeats a branch,
    /// only the last time counts.
    pub fn branches(&self) -> Vec<(&Source, &Source)> {
        const MOST: usize = 4;
        let mut branches: Vec<(&Source, &Source)> = Vec::new();
        let mut after: Option<&Source> = None;
        let mut next: Option<&Source> = None;
        for step in self.path.iter().rev() {
            let Some(source) = step.source.and_then(|nth| self.sources.get(nth)) else { continue };
            // The compiler may let several paths share an instruction, which then has the source line of one of them.
            if called_in(&source.text).is_some_and(|name| !self.calls(name)) {
                continue;
            }
            if after.is_some_and(|after| after.text != source.text) {
                next = after;
            }
            after = Some(source);
            let is_new = |next: &Source| {
                branches.iter().all(|(from, to)| (&from.text, &to.text) != (&source.text, &next.text))
            };
            if step.text.starts_with("if ")
                && let Some(next) = next
                && is_new(next)
            {
                branches.push((source, next));
            }
            if branches.len() == MOST {
                break;
            }
        }
        branches.reverse();
        branches
    }

    /// What the kernel explains itself, since Linux 7.3: the mistake, and the reason.
    pub fn reason(&self) -> Option<String> {
        let first = self.report.first()?;
        let reason = self.report.iter().skip_while(|line| **line != "Reason:").skip(1);
        let reason: Vec<_> =
            reason.take_while(|line| line.starts_with(' ')).map(|line| line.trim()).collect();
        Some([first, &*reason.join(" ")].join(". "))
    }

    /// Whether a number that is in a register was added to a register of the refused instruction.
    pub fn is_indexed(&self, register: &str) -> bool {
        let (add, set) = (format!("r{register} += r"), format!("r{register} = "));
        let mut steps = self.path.iter().rev().skip(1);
        steps
            .find(|step| step.text.starts_with(&add) || step.text.starts_with(&set))
            .is_some_and(|step| step.text.starts_with(&add))
    }

    /// Whether what the path shows of a register or of a place on the stack has one of these words.
    pub fn shows(&self, words: &[String]) -> bool {
        let has = |text: &str| words.iter().any(|word| text.contains(word));
        self.path.iter().any(|step| has(step.shown()) || step.state.lines.iter().any(|line| has(line)))
    }

    /// Whether a packet's pointer was compared with the packet's end, and has an offset for which the verifier ignores that.
    pub fn is_far(&self, register: &str) -> bool {
        const MOST: u64 = 0xffff;
        let past = self.past(register).was.unwrap_or_default();
        let same = past.split([',', ')']).next().filter(|begin| begin.contains("id="));
        let is_compared = |step: &Step<'_>| {
            let shown = step.shown();
            step.text.starts_with("if ")
                && shown.contains("pkt_end")
                && same.is_some_and(|same| shown.contains(same))
        };
        if !self.path.iter().any(is_compared) {
            return false;
        }
        let number = |name: &str| {
            let (_, value) = past.split_once(name)?;
            let value = value.split([',', ')']).next()?.split('=').next_back()?;
            match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            }
        };
        let most = number("umax=").or_else(|| number("umax_value=")).unwrap_or_default();
        most + number("(off=").or_else(|| number(",off=")).unwrap_or_default() + 1 > MOST
    }

    /// Whether nothing on the path set the register of the refused instruction, and nothing was called.
    pub fn is_untouched(&self, values: &Values) -> bool {
        let Some(name) = values.get("register").map(|register| format!("r{register}")) else { return false };
        let mut before = self.path[..self.path.len().saturating_sub(1)].iter().map(|step| step.operation());
        let is_whole = self.path.first().is_some_and(|step| step.instruction == 0);
        is_whole
            && !before.any(|text| {
                text.starts_with("call ") || registers::Effect::of(text).sets.as_ref() == Some(&name)
            })
    }

    /// How many calls on the path acquire something, or enter a region, that a return would have to give back or leave.
    pub fn acquires(&self) -> usize {
        const WORDS: [&str; 8] =
            ["_lock", "_acquire", "_reserve", "_from_", "_new", "_disable", "_save", "bpf_sk"];
        let acquires = |name: &str| WORDS.iter().any(|word| name.contains(word));
        self.path.iter().filter(|step| called(step.operation()).is_some_and(acquires)).count()
    }

    /// Whether the path comes to a source line without a branch.
    pub fn begins_with(&self, line: &str) -> bool {
        let is_it = |step: &&Step<'_>| {
            step.source.and_then(|nth| self.sources.get(nth)).is_some_and(|source| source.text == line)
        };
        let is_whole = self.path.first().is_some_and(|step| step.instruction == 0);
        let mut before = self.path.iter().take_while(|step| !is_it(step));
        is_whole
            && before.all(|step| !step.text.starts_with("if "))
            && self.path.iter().any(|step| is_it(&step))
    }

    /// Whether the verifier stopped in the program itself.
    pub fn is_in_program(&self) -> bool {
        let entered = (0..self.path.len()).filter(|at| self.enters(*at)).count();
        let left = self.path.iter().filter(|step| step.operation() == "exit").count();
        entered <= left && !self.path.last().is_some_and(|step| step.shown().starts_with("frame"))
    }

    /// Where the value of a register of the refused instruction comes from, such as `7`.
    pub fn origin(&self, register: &str) -> Origin<'_> {
        self.trace(format!("r{register}"), self.path.len().saturating_sub(1))
    }

    /// Whether a step calls a function of the program, or a helper that calls one, and the path goes on in it.
    fn enters(&self, at: usize) -> bool {
        let step = &self.path[at];
        let goes_on = |next: &Step<'_>| next.instruction != step.instruction + 1;
        step.text.starts_with("call ") && self.path.get(at + 1).is_some_and(goes_on)
    }

    /// Where the value of a register or of a place on the stack comes from, before a step.
    fn trace(&self, mut held: String, before: usize) -> Origin<'_> {
        // How many functions that were called, and have returned, we are in.
        let mut inside = 0;
        // What was left out can have changed everything.
        for (at, step) in self.path.iter().enumerate().take(before).skip(self.gap).rev() {
            let text = step.operation();
            let source = step.source.and_then(|nth| self.sources.get(nth));
            let is_function = self.enters(at);
            match text.split_once(" = ") {
                _ if text == "exit" => inside += 1,
                _ if inside > 0 => inside -= i32::from(is_function),
                _ if held == "r0" && text.starts_with("call ") && !is_function => {
                    return called(text)
                        .zip(source)
                        .map_or(Origin::Unknown, |(name, source)| Origin::Call(name, source));
                }
                _ if self.fills(at, &held) => return Origin::Unknown,
                // Before this, the value was in another register, or in memory.
                Some((to, from)) if to.replacen('w', "r", 1) == held => match from.split_once("(r") {
                    Some((_, base)) if !base.starts_with("10 ") => {
                        let base = base.split(' ').next().unwrap_or_default();
                        let base = Box::new(self.trace(format!("r{base}"), at));
                        return source.map_or(Origin::Unknown, |source| Origin::Memory(source, base));
                    }
                    None if !from.starts_with(['r', 'w', '(']) => return Origin::Constant,
                    _ => held = from.replacen('w', "r", 1),
                },
                _ => {}
            }
        }
        let is_whole = self.gap == 0 && self.path.first().is_some_and(|step| step.instruction == 0);
        if is_whole && held == "r1" { Origin::Context } else { Origin::Unknown }
    }

    /// What became of a pointer that was in a register of the refused instruction.
    pub fn past(&self, register: &str) -> Past<'_> {
        let mut past = Past::default();
        let mut held = format!("r{register}");
        // As in `trace`.
        let mut inside = 0;
        for (at, step) in self.path[..self.path.len().saturating_sub(1)].iter().enumerate().rev() {
            let text = step.operation();
            let is_function = self.enters(at);
            if inside == 0 {
                let mut shown = Registers::new();
                registers::add(step.shown(), &mut shown);
                step.state.lines.iter().for_each(|line| registers::add(line, &mut shown));
                if let Some(was) = shown.remove(&held).filter(|value| is_pointer(value)) {
                    past.was = Some(was);
                    return past;
                }
            }
            let source = step.source.and_then(|nth| self.sources.get(nth));
            past.calls.extend(called(text).map(|name| (name, source)));
            let effect = registers::Effect::of(text);
            let sets = effect.sets.as_ref().is_some_and(|set| *set == held);
            match text.split_once(" = ") {
                _ if text == "exit" => inside += 1,
                _ if inside > 0 => inside -= i32::from(is_function),
                _ if text.starts_with("call ") && !is_function && sets => return past,
                Some((to, from)) if sets => {
                    let is_half = |side: &str| side.starts_with('w') || side.starts_with("*(u32");
                    if let [read] = &effect.reads[..]
                        && (registers::stack_place(from).is_some() || from.chars().all(char::is_alphanumeric))
                    {
                        past.is_cut |= is_half(to) || is_half(from);
                        held.clone_from(read);
                        continue;
                    }
                    let is_constant = effect.reads.is_empty() && !from.contains('*');
                    past.constant = is_constant.then_some((from, source));
                    return past;
                }
                _ => {}
            }
        }
        past
    }

    /// Whether a step calls a helper that writes to this place on the stack, because it gets the place's address.
    fn fills(&self, at: usize, held: &str) -> bool {
        let Some(place) = held.split_once("(r10 ").map(|(_, place)| place.trim_end_matches(')')) else {
            return false;
        };
        let only_reads = ["bpf_map_", "bpf_ringbuf_", "bpf_perf_event_", "bpf_trace_"];
        let name = called(self.path[at].operation());
        let address =
            |step: &Step<'_>| step.operation().split_once(" += ").is_some_and(|(_, off)| off == place);
        name.is_some_and(|name| !only_reads.iter().any(|reads| name.starts_with(reads)))
            && self.path[at.saturating_sub(8)..at].iter().any(address)
    }

    /// The source line that returns, as far as the path shows it: that of the return value, of the end, or the program's
    /// head.
    pub fn returning(&self) -> Option<&Source> {
        let is_value =
            |step: &&Step<'_>| ["r0 = ", "w0 = ", "call "].iter().any(|new| step.text.starts_with(new));
        let value = self.path.iter().rfind(is_value)?;
        let of_value = self.sources.get(value.source?)?;
        let returns =
            |source: &&Source| source.text.starts_with("return") || source.text.contains(" return ");
        let from_call = match self.origin("0") {
            Origin::Call(_, source) => Some(source),
            _ => None,
        };
        from_call
            .or_else(|| Some(of_value).filter(returns))
            .or_else(|| self.source().filter(returns))
            .or_else(|| {
                self.sources.iter().find(|source| source.text.contains(&format!("({},", self.program)))
            })
    }

    /// The source line of the instruction with this number on the path.
    pub fn source_of(&self, instruction: &str) -> Option<&Source> {
        let step = self.path.iter().rev().find(|step| step.instruction.to_string() == instruction)?;
        self.sources.get(step.source?)
    }

    /// The helper that the instruction with this number calls.
    pub fn called_at(&self, instruction: &str) -> Option<&str> {
        let step = self.path.iter().rev().find(|step| step.instruction.to_string() == instruction)?;
        called(step.text)
    }

    /// The source line of the last call of one of these helpers before the refused instruction.
    pub fn last_call(&self, helpers: &[&str]) -> Option<&Source> {
        let before = &self.path[..self.path.len().checked_sub(1)?];
        let step =
            before.iter().rfind(|step| called(step.text).is_some_and(|name| helpers.contains(&name)))?;
        self.sources.get(step.source?)
    }

    /// The last instruction on the path.
    pub fn last_instruction(&self) -> Option<&'a str> {
        self.path.last().map(|step| step.text)
    }

    /// The last lines before the verifier's words.
    pub fn end(&self) -> &[&'a str] {
        const LINES: usize = 8;
        let until = self.lines.iter().rposition(|line| instruction(line).is_some()).map_or(0, |at| at + 1);
        &self.lines[until.saturating_sub(LINES)..until]
    }

    /// Whether the path calls this helper.
    pub fn calls(&self, helper: &str) -> bool {
        self.path.iter().any(|step| called(step.text) == Some(helper))
    }

    /// The calls of these helpers on the path: each with the helper's name, and the source line.
    pub fn all_calls(&self, helpers: &[&'static str]) -> impl Iterator<Item = (&'static str, &Source)> {
        self.path.iter().filter_map(|step| {
            let name = called(step.text)?;
            Some((*helpers.iter().find(|helper| **helper == name)?, self.sources.get(step.source?)?))
        })
    }

    /// The source line of the only call of one of these helpers on the path, with the helper's name.
    pub fn only_call(&self, helpers: &[&'static str]) -> Option<(&'static str, &Source)> {
        let mut called: Vec<_> = self.all_calls(helpers).collect();
        called.dedup();
        <[_; 1]>::try_from(called).ok().map(|[call]| call)
    }

    /// Whether the kernel knows the types of the program's arguments.
    pub fn has_types(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("func '"))
    }

    /// Whether the verifier stopped in a function that it checks on its own.
    pub fn validates_a_function(&self) -> bool {
        let check = |line: &&&str| line.starts_with("Validating ") || line.starts_with("Func#");
        self.lines.iter().rfind(check).is_some_and(|line| line.starts_with("Validating "))
    }

    /// Whether the path submits or discards a record, and ends with doing so again.
    pub fn releases_twice(&self) -> bool {
        let releases = self.path.iter().filter(|step| is_release(step.text));
        self.last_instruction().is_some_and(is_release) && releases.count() > 1
    }
}

impl<'a> Step<'a> {
    /// What the log shows about registers beside the instruction.
    pub fn shown(&self) -> &'a str {
        self.text.split_once("; ").map_or("", |(_, state)| state)
    }

    /// The instruction itself.
    pub fn operation(&self) -> &'a str {
        self.text.split(';').next().unwrap_or_default().trim()
    }
}

impl Source {
    /// A source line as the kernel prints it; since 6.9, ` @ FILE:LINE` follows it.
    fn parse(line: &str) -> Self {
        let located = line.rsplit_once(" @ ").and_then(|(text, place)| {
            let (file, line) = place.rsplit_once(':')?;
            Some((text, Location { file: file.to_owned(), line: line.parse().ok()? }))
        });
        match located {
            Some((text, location)) => {
                Self { text: text.trim().to_owned(), location: Some(location), instruction: None }
            }
            None => Self { text: line.trim().to_owned(), location: None, instruction: None },
        }
    }
}

/// Whether what a log shows of a register is a pointer.
fn is_pointer(value: &str) -> bool {
    let value = value.strip_prefix('P').unwrap_or(value);
    value.starts_with(char::is_alphabetic) && !value.starts_with("inv") && !value.starts_with("scalar")
}

/// The number and the text of an instruction: `16: (79) r1 = *(u64 *)(r0 +0)`.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (number, rest) = line.split_once(": (")?;
    let (_, text) = rest.split_once(") ")?;
    Some((number.trim().parse().ok()?, text))
}

/// The name of the helper that an instruction calls.
pub fn called(text: &str) -> Option<&str> {
    text.strip_prefix("call ")?.split('#').next()
}

/// The name of the helper that a source line calls, and does nothing else.
fn called_in(source: &str) -> Option<&str> {
    let (name, _) = source.split_once('(')?;
    (name.starts_with("bpf_") && !name.contains(' ') && name != "bpf_printk").then_some(name)
}

/// Whether an instruction submits or discards a record of a ring buffer.
fn is_release(text: &str) -> bool {
    ["call bpf_ringbuf_submit#", "call bpf_ringbuf_discard#"].iter().any(|release| text.contains(release))
}

/// Whether a line shows what the verifier knows about registers, such as `0: R1=ctx() R10=fp0`.
fn is_state(line: &str) -> bool {
    let state = line.split_once(": ").filter(|(number, _)| number.parse::<u64>().is_ok());
    let state = state.map_or(line, |(_, state)| state).trim_start();
    let register = state.strip_prefix('R').and_then(|rest| rest.split('=').next());
    let is_register = register.is_some_and(|name| {
        name.trim_end_matches(|c: char| c == '_' || c.is_ascii_lowercase()).parse::<u8>().is_ok()
    });
    (is_register && state.contains('=')) || state.starts_with("frame") || state.starts_with("fp-")
}

/// Whether a line is about how the verifier worked, and not about what it refused.
fn is_noise(line: &str) -> bool {
    const BEGINS: [&str; 17] = [
        "func#",
        "reg type unsupported for arg#",
        "Validating ",
        "Unrecognized arg#",
        "last_idx ",
        "regs=",
        "parent ",
        "mark_precise",
        "propagating ",
        "caller:",
        "callee:",
        "returning from callee:",
        "to caller at ",
        "verification time ",
        "stack depth ",
        "cur state: ",
        "old state: ",
    ];
    BEGINS.iter().any(|begin| line.trim_start().starts_with(begin))
        || line.contains(" has btf_id ")
        || line.trim() == "libbpf:"
        || line.ends_with(": <invalid CO-RE relocation>")
}

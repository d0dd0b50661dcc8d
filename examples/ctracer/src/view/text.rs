//! A recording as text: the call tree in the form of ftrace's `function_graph`, and the lives of bios.

use std::fmt::{self, Write};

use common::{Error, Result};

use crate::recording::{Bio, Task};
use crate::tree::{Call, Life, Tree};

/// The call tree: each outermost call with all calls inside it, in the order of time. Shows at most the first `most`
/// lines.
pub fn tree(tree: &Tree, most: Option<usize>) -> String {
    if tree.calls.is_empty() {
        return "No calls.".to_owned();
    }
    let mut lines = Lines { tree, text: String::new(), left: most.unwrap_or(usize::MAX), dropped: 0 };
    let mut children = vec![Vec::new(); tree.calls.len()];
    let mut roots = Vec::new();
    for (nth, call) in tree.calls.iter().enumerate() {
        call.parent.map_or(&mut roots, |parent| &mut children[parent]).push(nth);
    }
    lines.add(&format!("{:>18} CPU {:>13}  FUNCTION", "TIME (ns)", "DURATION"));
    let mut last = None;
    for root in roots {
        let call = &tree.calls[root];
        let on = (call.place.cpu, call.task, call.place.interrupt);
        if last != Some(on) {
            lines.add(&format!("{:>18} {:>3} {:>13}  -- {} --", "", "", "", whose(tree, call)));
            last = Some(on);
        }
        lines.subtree(root, &children);
    }
    let Lines { mut text, dropped, .. } = lines;
    if dropped > 0 {
        let _ = writeln!(text, "... and {dropped} more lines");
    }
    text.truncate(text.trim_end().len());
    text
}

struct Lines<'a> {
    tree: &'a Tree,
    text: String,
    left: usize,
    dropped: usize,
}

impl Lines<'_> {
    fn add(&mut self, line: &str) {
        if self.left == 0 {
            self.dropped += 1;
            return;
        }
        self.left -= 1;
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    /// Adds a call and all calls inside it. This doesn't use recursion, because a deep tree could overflow our own
    /// stack.
    fn subtree(&mut self, root: usize, children: &[Vec<usize>]) {
        let mut todo = vec![(root, false)];
        while let Some((nth, closing)) = todo.pop() {
            let call = &self.tree.calls[nth];
            let indent = "  ".repeat(call.depth as usize);
            let name = self.tree.function(call).map_or("?", |function| &function.name);
            let returned = self.tree.returned(call).map(|value| format!(" = {value}")).unwrap_or_default();
            let duration =
                call.end.map_or_else(|| "?".to_owned(), |end| micros(end.saturating_sub(call.place.time)));
            let (time, cpu) = (call.place.time, call.place.cpu);
            if closing {
                self.add(&format!("{:>18} {cpu:>3} {duration:>13}  {indent}}}{returned} /* {name} */", ""));
            } else if children[nth].is_empty() {
                let object = self.object(call);
                self.add(&format!(
                    "{time:>18} {cpu:>3} {duration:>13}  {indent}{}{returned};{object}",
                    signature(self.tree, call)
                ));
            } else {
                let object = self.object(call);
                self.add(&format!(
                    "{time:>18} {cpu:>3} {:>13}  {indent}{} {{{object}",
                    "",
                    signature(self.tree, call)
                ));
                todo.push((nth, true));
                todo.extend(children[nth].iter().rev().map(|child| (*child, false)));
            }
        }
    }

    /// The object and its contents, unless the surrounding call has the same object.
    fn object(&self, call: &Call) -> String {
        let around = call.parent.map(|parent| self.tree.calls[parent].object);
        if around == Some(call.object) {
            return String::new();
        }
        let data = call
            .bio
            .as_ref()
            .map(|bio| format!(" {}", data(self.tree, bio, call.place.time)))
            .unwrap_or_default();
        format!(" /* 0x{:x}{data} */", call.object)
    }
}

/// A function with the types of its arguments, but without its return type, as in the slides.
fn signature(tree: &Tree, call: &Call) -> String {
    let Some(function) = tree.function(call) else { return "?()".to_owned() };
    let from = function.prototype.find(&format!("{}(", function.name)).unwrap_or_default();
    let signature = &function.prototype[from..];
    function.source.as_ref().map_or_else(|| signature.to_owned(), |source| format!("{signature} [{source}]"))
}

/// The contents of a bio, such as `write 8 + 4096 bytes nvme0n1`.
fn data(tree: &Tree, bio: &Bio, time: u64) -> String {
    let device = if bio.device == 0 { String::new() } else { format!(" {}", tree.device(bio.device, time)) };
    let status = if bio.status == 0 { String::new() } else { format!(" status {}", bio.status) };
    format!("{} {} + {} bytes{device}{status}", tree.operation(bio), bio.sector, bio.bytes)
}

/// The thread that had the CPU.
fn whose(tree: &Tree, call: &Call) -> String {
    let Task { tid, comm, .. } = tree.tasks.get(call.task).cloned().unwrap_or_default();
    let interrupt = if call.place.interrupt { "interrupt of " } else { "" };
    format!("{interrupt}{comm}-{tid}")
}

fn micros(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}

/// The lives of the bio at an address.
pub fn lives_of(tree: &Tree, object: u64) -> Result<String> {
    let lives: Vec<_> =
        tree.lives.iter().filter(|life| life.object == object).map(|life| self::life(tree, life)).collect();
    if lives.is_empty() {
        return Err(Error::new(format!("no bio at 0x{object:x} was submitted while this was recorded"))
            .evidence(format!("{} lives are recorded", tree.lives.len()))
            .fix("take an address from the call tree, or see the slowest ones: --slowest 3"));
    }
    Ok(lives.join("\n"))
}

/// The lives that took longest. Ignores lives without an end.
pub fn slowest(tree: &Tree, most: usize) -> String {
    let mut lives: Vec<_> = tree.lives.iter().filter(|life| life.end.is_some()).collect();
    lives.sort_by_key(|life| std::cmp::Reverse(life.duration()));
    let lives: Vec<_> = lives.into_iter().take(most).map(|life| self::life(tree, life)).collect();
    if lives.is_empty() { "No bio has ended.".to_owned() } else { lives.join("\n") }
}

/// One life, with the time between one function and the next.
fn life(tree: &Tree, life: &Life) -> String {
    let mut text = format!("bio 0x{:x}: {}", life.object, data(tree, &life.bio, life.start));
    let flags = tree.header.flags.names(life.bio.opf);
    if !flags.is_empty() {
        let _ = write!(text, " {flags}");
    }
    let took = life.duration().map_or_else(|| "in flight".to_owned(), micros);
    let error = if life.status == 0 { String::new() } else { format!(", status {}", life.status) };
    let _ = writeln!(text, ": {took}{error}");
    if let Some([before, queue, disk, completing]) = life.parts().map(|parts| parts.map(micros)) {
        let _ = writeln!(text, "before {before}, queue {queue}, disk {disk}, completing {completing}");
    }
    let _ = writeln!(text, "{:>13} {:>13} CPU  {:<24} FUNCTION", "SINCE START", "SINCE LAST", "TASK");
    let (mut last, own) = (life.start, life.calls.first().and_then(|submit| tree.calls[*submit].life));
    let least = life.calls.iter().map(|call| tree.calls[*call].depth).min().unwrap_or_default();
    for call in &life.calls {
        let call = &tree.calls[*call];
        let time = call.place.time;
        let [start, gap] = [life.start, last].map(|from| micros(time.saturating_sub(from)));
        let indent = "  ".repeat((call.depth - least) as usize);
        let (cpu, whose) = (call.place.cpu, whose(tree, call));
        let whose_bio = match call.life {
            _ if call.object == life.object => String::new(),
            of if of == own => format!(" /* its piece 0x{:x} */", call.object),
            _ => format!(" /* chained before it: 0x{:x} */", call.object),
        };
        let _ = writeln!(
            text,
            "{start:>13} {gap:>13} {cpu:>3}  {whose:<24} {indent}{}{whose_bio}",
            signature(tree, call)
        );
        last = time;
    }
    text
}

/// How much was recorded, and what is missing.
pub struct Summary<'a>(pub &'a Tree);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tree) = self;
        let open = tree.calls.iter().filter(|call| call.end.is_none()).count();
        write!(f, "Calls: {}, without a return: {open}, ", tree.calls.len())?;
        if tree.header.class == "bio" {
            let in_flight = tree.lives.iter().filter(|life| life.end.is_none()).count();
            write!(f, "lives: {}, without an end: {in_flight}, ", tree.lives.len())?;
        }
        let Some(losses) = &tree.losses else { return f.write_str("what was lost is not known") };
        let lost: Vec<_> = losses.lost.iter().enumerate().filter(|(_, lost)| **lost > 0).collect();
        write!(f, "events lost: {}", losses.lost.iter().sum::<u64>())?;
        if !lost.is_empty() {
            let by_cpu: Vec<_> = lost.iter().map(|(cpu, lost)| format!("CPU {cpu}: {lost}")).collect();
            write!(f, " ({})", by_cpu.join(", "))?;
        }
        match losses.suppressed {
            Some(missed) => write!(f, ", calls missed: {missed}"),
            None => f.write_str(
                ", calls missed: not known (the kernel counts them all from 6.7 on, and tells only root)",
            ),
        }
    }
}

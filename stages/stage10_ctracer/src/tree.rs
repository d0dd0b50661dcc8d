//! Tree and lives: which call was made in which other, and which calls one bio went through from `submit_bio()` to
//! `bio_endio()`.
//!
//! **Where a call belongs.** A stack of open calls is kept for each thread, and one for the interrupts of each CPU, which have
//! a stack of their own there: what an interrupt calls is never a child of what it interrupts. An interrupt that comes in the
//! middle of another goes on on that one's stack, and its calls are children there, as in ftrace's `function_graph`. An
//! interrupt that comes while a CPU runs user space, or a `ksoftirqd`, uses the thread's own, otherwise empty, stack.
//!
//! **Returns.** A return belongs to the innermost call that is open at the same place of the same stack, and is of the same
//! function where the kernel tells it. A function may end with a jump to another (a tail call): both are at the same place, and
//! the second is the child. When a call or a return is seen further up the stack, all that was open below it is over: its
//! returns were lost. Such a call has no duration and no children, those that it had stand beside it, so nothing that comes
//! later can end up below it.

use std::collections::HashMap;

use common::disks;

use crate::record::ENDS;
use crate::recording::{
    Bio, Call as Called, Function, Header, Losses, Place, Record, Recording, Return, Task,
};

/// The kernel's stacks are no larger on x86_64, without KASAN.
const THREAD_SIZE: u64 = 16 << 10;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where and when it was made.
    pub place: Place,
    /// Which function: an index into the header's.
    pub function: usize,
    /// By which thread: an index into [`Tree::tasks`]. In an interrupt, the one that had the CPU.
    pub task: usize,
    /// The object's address.
    pub object: u64,
    /// What the object held at that moment.
    pub bio: Option<Bio>,
    /// When it returned; `None` if that was not seen.
    pub end: Option<u64>,
    /// The register that holds what it returned.
    pub value: Option<u64>,
    /// The call in which it was made: an index into [`Tree::calls`].
    pub parent: Option<usize>,
    /// How many calls it is in.
    pub depth: u32,
    /// The life that it is part of: an index into [`Tree::lives`].
    pub life: Option<usize>,
}

/// A bio's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its address.
    pub object: u64,
    /// When `submit_bio()` was called.
    pub start: u64,
    /// When the `bio_endio()` was called that ended it; `None` if it was still in flight, or that was not seen.
    pub end: Option<u64>,
    /// The error it ended with, as `bi_status` has it; 0 if there was none.
    pub status: u8,
    /// What it held when it was submitted.
    pub bio: Bio,
    /// The calls that got it, or a piece of it, in this time, in their order: indices into [`Tree::calls`].
    pub calls: Vec<usize>,
}

impl Life {
    /// How long it took, in nanoseconds, if it ended.
    pub fn duration(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.start))
    }
}

/// What a recording says.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// What was traced.
    pub header: Header,
    /// The threads, each under each name that it had.
    pub tasks: Vec<Task>,
    /// Disks and partitions by number, and their names.
    pub devices: Vec<(u32, String)>,
    /// The calls, in the order in which they were made.
    pub calls: Vec<Call>,
    /// The lives, in the order in which they began.
    pub lives: Vec<Life>,
    /// What was not recorded; `None` if the recording was cut before it said so.
    pub losses: Option<Losses>,
}

/// Whose stack a call is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stack {
    Task(u32),
    /// Each CPU's idle task has the id 0.
    Idle(u16),
    Interrupt(u16),
}

impl Stack {
    fn of(place: &Place) -> Self {
        match place {
            Place { interrupt: true, cpu, .. } => Self::Interrupt(*cpu),
            Place { tid: 0, cpu, .. } => Self::Idle(*cpu),
            Place { tid, .. } => Self::Task(*tid),
        }
    }
}

impl Tree {
    /// Puts together what a recording says.
    pub fn new(recording: Recording) -> Self {
        let mut tree = Self { header: recording.header, ..Self::default() };
        let events = tree.read(recording.records);
        tree.pair(events);
        tree.nest();
        if tree.header.class == "bio" {
            Lives::of(&mut tree);
        }
        tree
    }

    /// The function of a call.
    pub fn function(&self, call: &Call) -> Option<&Function> {
        self.header.functions.get(call.function)
    }

    /// What a call returned, as it is shown; `None` if nothing, or that was not seen.
    pub fn returned(&self, call: &Call) -> Option<String> {
        self.function(call)?.returns.shown(call.value?)
    }

    /// What a bio is to do, such as `write`.
    pub fn operation(&self, bio: &Bio) -> String {
        let name = self.header.flags.operation(bio.opf);
        // A flush of the disk's cache is a write of nothing with this flag.
        let flush =
            bio.bytes == 0 && self.header.flags.names(bio.opf).split('-').any(|flag| flag == "Preflush");
        if flush && name == "Write" { "flush".to_owned() } else { name.to_lowercase() }
    }

    /// The name of a disk or a partition; its number if it came and went unseen.
    pub fn device(&self, number: u32) -> String {
        let known = self.devices.iter().find(|(other, name)| *other == number && !name.is_empty());
        known.map_or_else(|| disks::shown(number), |(_, name)| name.clone())
    }

    /// Calls and returns in the order of time: each CPU wrote its own as it came to it.
    fn read(&mut self, records: Vec<Record>) -> Vec<Event> {
        let (mut now, mut known) = (HashMap::new(), HashMap::new());
        let mut events = Vec::new();
        for record in records {
            match record {
                Record::Header(_) => {}
                Record::Task(task) => {
                    let tid = task.tid;
                    let tasks = &mut self.tasks;
                    let index = known.entry((task.tid, task.pid, task.comm.clone())).or_insert_with(|| {
                        tasks.push(task);
                        tasks.len() - 1
                    });
                    now.insert(tid, *index);
                }
                Record::Device(device) => self.devices.push((device.number, device.name)),
                Record::Call(call) => {
                    let task = now.get(&call.place.tid).copied().unwrap_or_default();
                    events.push(Event::Call(call, task));
                }
                Record::Return(seen) => events.push(Event::Return(seen)),
                Record::Losses(losses) => self.losses = Some(losses),
            }
        }
        events.sort_by_key(|event| event.place().time);
        events
    }

    /// Finds the call that each return belongs to.
    fn pair(&mut self, events: Vec<Event>) {
        let mut open: HashMap<Stack, Vec<usize>> = HashMap::new();
        for event in events {
            let place = *event.place();
            let stack = open.entry(Stack::of(&place)).or_default();
            // Further up than these, so they are over; or on a stack that has another place now.
            while stack.last().is_some_and(|top| {
                let sp = self.calls[*top].place.sp;
                sp < place.sp || sp - place.sp >= THREAD_SIZE
            }) {
                stack.pop();
            }
            match event {
                Event::Call(call, task) => {
                    stack.push(self.calls.len());
                    self.calls.push(Call {
                        place,
                        function: call.function as usize,
                        task,
                        object: call.object,
                        bio: call.bio,
                        end: None,
                        value: None,
                        parent: None,
                        depth: 0,
                        life: None,
                    });
                }
                Event::Return(seen) => {
                    let belongs = |call: &Call| {
                        call.place.sp == place.sp
                            && seen.function.is_none_or(|function| function as usize == call.function)
                    };
                    // Of a call that was made before the start, or is not asked for, or was lost.
                    let Some(at) = stack.iter().rposition(|call| belongs(&self.calls[*call])) else {
                        continue;
                    };
                    let call = &mut self.calls[stack[at]];
                    (call.end, call.value) = (Some(place.time), Some(seen.value));
                    stack.truncate(at);
                }
            }
        }
    }

    /// Finds the call in which each was made.
    fn nest(&mut self) {
        let mut open: HashMap<Stack, Vec<usize>> = HashMap::new();
        for nth in 0..self.calls.len() {
            let call = &self.calls[nth];
            let (start, end) = (call.place.time, call.end);
            let stack = open.entry(Stack::of(&call.place)).or_default();
            // Only calls whose return was seen are in it.
            let lasts = |outer: usize| self.calls[outer].end.unwrap_or_default();
            while stack.last().is_some_and(|outer| lasts(*outer) < end.unwrap_or(start)) {
                stack.pop();
            }
            let parent = stack.last().copied();
            if end.is_some() {
                stack.push(nth);
            }
            let depth = parent.map_or(0, |parent| self.calls[parent].depth + 1);
            let call = &mut self.calls[nth];
            (call.parent, call.depth) = (parent, depth);
        }
    }
}

enum Event {
    Call(Called, usize),
    Return(Return),
}

impl Event {
    fn place(&self) -> &Place {
        match self {
            Self::Call(call, _) => &call.place,
            Self::Return(seen) => &seen.place,
        }
    }
}

/// Finds the lives.
///
/// A bio that is larger than its disk takes, or goes to several disks, is split: pieces are made, whose `bi_end_io` is
/// `bio_chain_endio()`, and each of them must end before it ends. So `bio_endio()` is called for it several times, or for the
/// last time for a piece of it, within which the kernel goes on to it without a call. `__bi_remaining` says how many are left.
struct Lives<'a> {
    tree: &'a mut Tree,
    /// The life of each bio that is in flight.
    open: HashMap<u64, Open>,
    /// Calls that got a bio which has no life, such as a piece of another.
    loose: HashMap<u64, Vec<usize>>,
    /// The bio that each piece is of.
    parents: HashMap<u64, u64>,
}

struct Open {
    life: usize,
    /// The calls of `bio_endio()` that it has had.
    ends: Vec<usize>,
}

impl Lives<'_> {
    fn of(tree: &mut Tree) {
        let number = |name: &str| tree.header.functions.iter().position(|function| function.name == name);
        let [submit, end] = ENDS.map(number);
        let mut lives = Lives { tree, open: HashMap::new(), loose: HashMap::new(), parents: HashMap::new() };
        for nth in 0..lives.tree.calls.len() {
            let call = &lives.tree.calls[nth];
            let (object, function) = (call.object, Some(call.function));
            let Some(bio) = call.bio else { continue };
            match bio.parent {
                0 => lives.parents.remove(&object),
                parent => lives.parents.insert(object, parent),
            };
            if function == submit {
                lives.begin(nth, bio);
            } else if let Some(open) = lives.open.get(&object) {
                lives.tree.lives[open.life].calls.push(nth);
            } else {
                lives.loose.entry(object).or_default().push(nth);
            }
            if function == end {
                lives.end(nth, object, bio);
            }
        }
        lives.finish();
    }

    fn begin(&mut self, nth: usize, bio: Bio) {
        let call = &self.tree.calls[nth];
        let (object, start) = (call.object, call.place.time);
        let life = Life { object, start, end: None, status: 0, bio, calls: vec![nth] };
        self.loose.remove(&object);
        // If its address has a life, that one is over, and we have not seen its end.
        self.open.insert(object, Open { life: self.tree.lives.len(), ends: Vec::new() });
        self.tree.lives.push(life);
    }

    /// A call of `bio_endio()`: the end of this bio, if nothing remains, and perhaps of those that it is a piece of.
    fn end(&mut self, nth: usize, object: u64, bio: Bio) {
        let (mut object, mut remaining) = (object, Some(bio.remaining));
        // A piece of a piece of a piece: no deeper than this, also if a recording says that it is its own.
        for depth in 0..8 {
            let is_over = match self.open.get(&object) {
                Some(_) => self.count(nth, object, remaining, bio.status),
                None => remaining.is_none_or(|remaining| remaining <= 1),
            };
            let Some(parent) = self.parents.get(&object).copied().filter(|_| is_over) else { break };
            self.parents.remove(&object);
            self.adopt(object, parent);
            remaining = (depth == 0).then_some(bio.parent_remaining);
            object = parent;
        }
        if !self.open.contains_key(&object) {
            self.loose.remove(&object);
        }
    }

    /// Counts an end of a bio that has a life, and says whether it is over.
    fn count(&mut self, nth: usize, object: u64, remaining: Option<u32>, status: u8) -> bool {
        let Some(open) = self.open.get_mut(&object) else { return false };
        let start = self.tree.calls[nth].place.time;
        // Two CPUs may each see that two remain, before either has counted: these calls overlap.
        let ends = |call: &usize| self.tree.calls[*call].end.is_none_or(|end| end > start);
        let at_the_same_time = open.ends.iter().filter(|call| ends(call)).count() as u32;
        open.ends.push(nth);
        let life = &mut self.tree.lives[open.life];
        if life.calls.last() != Some(&nth) {
            life.calls.push(nth);
        }
        // The first error is the bio's, as the kernel keeps that of any piece.
        if life.status == 0 {
            life.status = status;
        }
        if remaining.is_some_and(|remaining| remaining > 1 + at_the_same_time) {
            return false;
        }
        life.end = Some(start);
        // Unless we are sure, a later one may still say better.
        if remaining.is_some_and(|remaining| remaining <= 1) {
            self.open.remove(&object);
        }
        true
    }

    /// The calls that got a piece belong to the life of what it is a piece of.
    fn adopt(&mut self, piece: u64, parent: u64) {
        let Some(open) = self.open.get(&parent) else { return };
        let calls = self.loose.remove(&piece).unwrap_or_default();
        let life = &mut self.tree.lives[open.life];
        let begun = |call: &usize| self.tree.calls[*call].place.time >= life.start;
        life.calls.extend(calls.into_iter().filter(begun));
    }

    fn finish(self) {
        for (nth, life) in self.tree.lives.iter_mut().enumerate() {
            life.calls.sort_unstable();
            life.calls.dedup();
            let calls = &mut self.tree.calls;
            life.calls.retain(|call| life.end.is_none_or(|end| calls[*call].place.time <= end));
            for call in &life.calls {
                calls[*call].life.get_or_insert(nth);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

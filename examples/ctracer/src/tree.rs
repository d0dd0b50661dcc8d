//! Tree and lives: which call was made inside which other, and which calls a bio went through from `submit_bio()` to
//! `bio_endio()`.
//!
//! **Where a call belongs.** We keep one stack of open calls for each thread, and one for the interrupts of each CPU,
//! because the CPU has a separate stack for them. So a call in an interrupt is never a child of the function that was
//! interrupted. If an interrupt comes in the middle of another one, it continues on the same stack, and its calls
//! become children there, as in ftrace's `function_graph`. If an interrupt comes while a CPU runs user space or a
//! `ksoftirqd`, it uses the thread's own stack, which is empty then.
//!
//! **Returns.** A return belongs to the innermost open call with the same stack pointer on the same stack. If the
//! kernel reports the function, it must also be the same. A function may end with a jump to another one, a tail call.
//! Both have the same stack pointer, and the second becomes the child. If we see a call or a return further up the
//! stack, everything that was open below it is over, and its returns were lost. Such a call has no duration and no
//! children: its children become its siblings, so nothing later can end up below it.

use std::collections::HashMap;

use toolkit::disks;

use crate::record::ENDS;
use crate::recording::{
    Bio, Call as Called, Device, Function, Header, Losses, Mark, Moment, Place, Record, Recording, Return,
    Task,
};

/// The size of the kernel's stacks, without KASAN, and with pages of at most 16 KiB. None is larger.
const THREAD_SIZE: u64 = 16 << 10;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where and when it was made.
    pub place: Place,
    /// The function: an index into the header's functions.
    pub function: usize,
    /// The thread: an index into [`Tree::tasks`]. In an interrupt, this is the thread that had the CPU.
    pub task: usize,
    /// The object's address.
    pub object: u64,
    /// The contents of the object at that moment.
    pub bio: Option<Bio>,
    /// When it returned; `None` if we didn't see that.
    pub end: Option<u64>,
    /// The register of the return value.
    pub value: Option<u64>,
    /// The call inside which this one was made: an index into [`Tree::calls`].
    pub parent: Option<usize>,
    /// How many calls this one is inside of.
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
    /// When the call of `bio_endio()` came that ended it; `None` if it was still in flight, or if we didn't see that
    /// call.
    pub end: Option<u64>,
    /// Its error from `bi_status`; 0 if there was none.
    pub status: u8,
    /// Its contents when it was submitted.
    pub bio: Bio,
    /// The calls between start and end that got this bio or a piece of it, in order: indices into [`Tree::calls`].
    pub calls: Vec<usize>,
    /// When its request was made, when the driver got it, and when the disk was done with it. If it had several, those of
    /// the one that was done last. `None` if it had none, or if we didn't see that.
    pub request: Option<[u64; 3]>,
}

impl Life {
    /// How long it took, in nanoseconds, if it ended.
    pub fn duration(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.start))
    }

    /// Of this time, in nanoseconds, what came before the request, what the queue and the disk had, and the completion;
    /// `None` if there was no request.
    pub fn parts(&self) -> Option<[u64; 4]> {
        let [made, issued, done] = self.request?;
        let times = [self.start, made, issued, done, self.end?];
        Some([0, 1, 2, 3].map(|nth| times[nth + 1].saturating_sub(times[nth])))
    }
}

/// A recording as a tree of calls and a list of lives.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// What was traced.
    pub header: Header,
    /// The threads. A thread that changed its name is in it once for each name.
    pub tasks: Vec<Task>,
    /// Disks and partitions: the time from which on a number means this one, the number, and the name.
    pub devices: Vec<(u64, u32, String)>,
    /// The calls, in the order in which they were made.
    pub calls: Vec<Call>,
    /// The lives, in the order in which they began.
    pub lives: Vec<Life>,
    /// The moments of the bios' requests, in order.
    marks: Vec<Mark>,
    /// What was not recorded; `None` if the recording was cut short before this record.
    pub losses: Option<Losses>,
}

/// Whose stack a call is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stack {
    Task(u32),
    /// All idle tasks have the id 0, so we need the CPU.
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
    /// Builds the tree and the lives of a recording.
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

    /// The return value of a call as text; `None` if it returned nothing, or if we didn't see the return.
    pub fn returned(&self, call: &Call) -> Option<String> {
        self.function(call)?.returns.shown(call.value?)
    }

    /// The operation of a bio, such as `write`.
    pub fn operation(&self, bio: &Bio) -> String {
        let name = self.header.flags.operation(bio.opf);
        // A flush of the disk's cache is a write of nothing with this flag.
        let flush =
            bio.bytes == 0 && self.header.flags.names(bio.opf).split('-').any(|flag| flag == "Preflush");
        if flush && name == "Write" { "flush".to_owned() } else { name.to_lowercase() }
    }

    /// The name of the disk or partition that had a number at a time; the number if it was gone before we looked.
    pub fn device(&self, number: u32, time: u64) -> String {
        let mut known = self.devices.iter().rev();
        let known = known.find(|(since, other, name)| *since <= time && *other == number && !name.is_empty());
        known.map_or_else(|| disks::shown(number), |(_, _, name)| name.clone())
    }

    /// Reads the calls and returns, and sorts them by time, because each CPU wrote its events separately.
    fn read(&mut self, records: Vec<Record>) -> Vec<Event> {
        let (mut now, mut known) = (HashMap::new(), HashMap::new());
        let (mut events, mut latest) = (Vec::new(), 0);
        for record in records {
            match record {
                Record::Header(_) | Record::Events(_) => {}
                Record::Task(task) => {
                    let tid = task.tid;
                    let tasks = &mut self.tasks;
                    let index = known.entry((task.tid, task.pid, task.comm.clone())).or_insert_with(|| {
                        tasks.push(task);
                        tasks.len() - 1
                    });
                    now.insert(tid, *index);
                }
                Record::Device(Device { number, name, .. }) => {
                    let is_first = self.devices.iter().all(|(_, other, _)| *other != number);
                    self.devices.push((if is_first { 0 } else { latest + 1 }, number, name));
                }
                Record::Call(call) => {
                    let task = now.get(&call.place.tid).copied().unwrap_or_default();
                    latest = latest.max(call.place.time);
                    events.push(Event::Call(call, task));
                }
                Record::Return(seen) => events.push(Event::Return(seen)),
                Record::Losses(losses) => self.losses = Some(losses),
                Record::Mark(mark) => self.marks.push(mark),
            }
        }
        self.marks.sort_by_key(|mark| mark.time);
        events.sort_by_key(|event| event.place().time);
        events
    }

    /// Finds the call that each return belongs to.
    fn pair(&mut self, events: Vec<Event>) {
        let mut open: HashMap<Stack, Vec<usize>> = HashMap::new();
        for event in events {
            let place = *event.place();
            let stack = open.entry(Stack::of(&place)).or_default();
            // If this event is further up the stack than a call, that call is over. If it is far away, the stack is now
            // elsewhere.
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
                    // The call was made before the start, was not wanted, or was lost.
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

    /// Finds the call inside which each call was made.
    fn nest(&mut self) {
        let mut open: HashMap<Stack, Vec<usize>> = HashMap::new();
        for nth in 0..self.calls.len() {
            let call = &self.calls[nth];
            let (start, end) = (call.place.time, call.end);
            let stack = open.entry(Stack::of(&call.place)).or_default();
            // The stack has only calls whose return we saw.
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
/// If a bio is larger than its disk accepts, or goes to several disks, the kernel splits it into pieces. If it writes
/// zeros or discards, the kernel makes a chain of bios instead, and submits each. A piece, and each bio in a chain but
/// the last, has `bio_chain_endio()` as its `bi_end_io`, and its parent ends only after it. So the kernel may call
/// `bio_endio()` several times for the parent. Or the last call is for the other one, and in it the kernel continues
/// with the parent without another call, and then with the parent's parent. `__bi_remaining` is the number of ends that
/// are left.
struct Lives<'a> {
    tree: &'a mut Tree,
    /// The life of each bio that is in flight.
    open: HashMap<u64, usize>,
    /// The ends so far of each bio that needs more.
    ends: HashMap<u64, Ends>,
    /// Calls that got a bio without a life, such as a piece of another bio.
    loose: HashMap<u64, Vec<usize>>,
    /// The bio that each piece, or each bio of a chain, is an end of.
    parents: HashMap<u64, u64>,
}

#[derive(Default)]
struct Ends {
    /// The calls of `bio_endio()` for it, or for others that it waited for.
    calls: Vec<usize>,
    /// How many it needs, as far as we know.
    needed: u32,
}

impl Lives<'_> {
    fn of(tree: &mut Tree) {
        let number = |name: &str| tree.header.functions.iter().position(|function| function.name == name);
        let [submit, end] = ENDS.map(number);
        let (open, ends, loose, parents) = Default::default();
        let mut lives = Lives { tree, open, ends, loose, parents };
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
            } else if let Some(life) = lives.open.get(&object) {
                lives.tree.lives[*life].calls.push(nth);
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
        let life = Life { object, start, end: None, status: 0, bio, calls: vec![nth], request: None };
        self.loose.remove(&object);
        // A bio that is chained before this one may have ended already. If that call still runs, this one may see an end
        // that the call is about to count.
        if let Some(mut ends) = self.ends.remove(&object).filter(|_| bio.remaining > 1) {
            let calls = &self.tree.calls;
            let runs = |other: &usize| calls[*other].end.is_none_or(|end| end > start);
            ends.calls.retain(|other| calls[*other].object != object && runs(other));
            ends.needed = 0;
            self.ends.insert(object, ends);
        }
        // If this address already has a life, that one is over, and we missed its end.
        self.open.insert(object, self.tree.lives.len());
        self.tree.lives.push(life);
    }

    /// Handles a call of `bio_endio()`. If nothing remains, it ends this bio, and perhaps those that waited for it.
    fn end(&mut self, mut nth: usize, mut object: u64, bio: Bio) {
        let mut remaining = [bio.remaining, bio.parent_remaining].into_iter();
        while let Some(last) = self.count(nth, object, remaining.next(), bio.status) {
            // Removed, so the loop ends even if in a damaged recording a bio is its own parent.
            let Some(parent) = self.parents.remove(&object) else { break };
            self.adopt(object, parent);
            (nth, object) = (last, parent);
        }
        if !self.open.contains_key(&object) {
            self.loose.remove(&object);
        }
    }

    /// Counts an end of a bio. If it was the last, returns the call that goes on with the parent. The call does not tell
    /// what remained of the parent's parent.
    fn count(&mut self, nth: usize, object: u64, remaining: Option<u32>, status: u8) -> Option<usize> {
        let start = self.tree.calls[nth].place.time;
        let ends = self.ends.entry(object).or_default();
        // If two CPUs call it at the same time, both may see that two ends remain, because neither has counted its own
        // yet. So a call that goes on may be counted in what remains, or not.
        let is_over = |call: &&usize| self.tree.calls[**call].end.is_some_and(|end| end <= start);
        let before = ends.calls.iter().filter(is_over).count() as u32;
        ends.calls.push(nth);
        ends.needed = ends.needed.max(remaining.map_or(0, |remaining| remaining.saturating_add(before)));
        // One of them is always its own.
        let has_own = ends.calls.iter().any(|call| self.tree.calls[*call].object == object);
        let (count, is_end) = (ends.calls.len() as u32, remaining.is_some_and(|remaining| remaining <= 1));
        let is_last = is_end || has_own && count >= ends.needed;
        // Of calls at the same time, the one that counts its end last goes on, and so returns last.
        let returns = |call: &&usize| self.tree.calls[**call].end.unwrap_or(u64::MAX);
        let last = ends.calls.iter().max_by_key(returns).copied().filter(|_| is_last);
        if let Some(life) = self.open.get(&object) {
            let life = &mut self.tree.lives[*life];
            life.calls.push(nth);
            // The first error of any piece becomes the bio's error, as in the kernel.
            if life.status == 0 {
                life.status = status;
            }
            if is_last {
                life.end = Some(start);
            }
        }
        // If we aren't sure, we keep the life open, because a later call may correct its end.
        if is_end || is_last && count == before + 1 {
            self.open.remove(&object);
            self.ends.remove(&object);
        }
        last
    }

    /// Adds the calls that got a piece to the life of the bio that it is a piece of.
    fn adopt(&mut self, piece: u64, parent: u64) {
        let Some(life) = self.open.get(&parent) else { return };
        let calls = self.loose.remove(&piece).unwrap_or_default();
        let life = &mut self.tree.lives[*life];
        let begun = |call: &usize| self.tree.calls[*call].place.time >= life.start;
        life.calls.extend(calls.into_iter().filter(begun));
    }

    fn finish(self) {
        let flags = &self.tree.header.flags;
        for (nth, life) in self.tree.lives.iter_mut().enumerate() {
            let flushes = flags.names(life.bio.opf).split('-').any(|flag| flag == "Preflush");
            life.calls.sort_unstable();
            life.calls.dedup();
            let calls = &mut self.tree.calls;
            life.calls.retain(|call| life.end.is_none_or(|end| calls[*call].place.time <= end));
            for call in &life.calls {
                calls[*call].life.get_or_insert(nth);
            }
            life.request =
                life.end.and_then(|end| request(calls, &life.calls, &self.tree.marks, end, flushes));
        }
    }
}

/// The times of the request that a life waited for: of its bio, or of the piece whose request was done last. If it
/// `flushes` the disk's cache first, that is the first thing that the driver got for it.
fn request(calls: &[Call], of_life: &[usize], marks: &[Mark], end: u64, flushes: bool) -> Option<[u64; 3]> {
    let mut since: HashMap<u64, u64> = HashMap::new();
    for call in of_life.iter().map(|call| &calls[*call]) {
        since.entry(call.object).or_insert(call.place.time);
    }
    let start = since.values().min().copied()?;
    let marks = &marks[marks.partition_point(|mark| mark.time < start)..];
    let marks = &marks[..marks.partition_point(|mark| mark.time <= end)];
    let is_its = |mark: &&Mark| since.get(&mark.object).is_some_and(|since| *since <= mark.time);
    let done = marks.iter().filter(is_its).rfind(|mark| mark.what == Moment::Done)?;
    // If the driver gave the request back, the first time counts.
    let first = |object, what, since| {
        let is_it = |mark: &&Mark| mark.object == object && mark.what == what && mark.time >= since;
        marks.iter().find(is_it).map(|mark| mark.time)
    };
    let object = done.object;
    let since = since.get(&object).copied()?;
    let made = first(object, Moment::Made, since);
    let flushed = made.filter(|_| flushes).and_then(|made| first(0, Moment::Issued, made));
    let issued = first(object, Moment::Issued, since).into_iter().chain(flushed).min()?;
    Some([made.unwrap_or(issued).min(issued), issued, done.time])
}

#[cfg(test)]
pub(crate) mod tests;

use super::*;
use crate::recording::{Bio, Function, Returned};
use crate::view::json::View;

/// A task's stack, and the interrupts' stack on CPU 0.
const STACK: u64 = 0xffff_c900_0010_4000;
const INTERRUPTS: u64 = 0xffff_c900_0000_4000;

const NAMES: [&str; 5] = ["submit_bio", "bio_endio", "outer", "inner", "last"];
const SUBMIT: u32 = 0;
const END: u32 = 1;
const OUTER: u32 = 2;
const INNER: u32 = 3;
const LAST: u32 = 4;

/// Makes events by hand. Each comes a nanosecond after the one before.
#[derive(Default)]
pub(crate) struct Script {
    records: Vec<Record>,
    time: u64,
    tid: u32,
}

impl Script {
    fn new() -> Self {
        let mut script = Self { tid: 7, ..Self::default() };
        for tid in [7, 8] {
            script.records.push(Record::Task(Task { tid, pid: 7, comm: format!("t{tid}") }));
        }
        script
    }

    fn by(&mut self, tid: u32) -> &mut Self {
        self.tid = tid;
        self
    }

    /// A place at this depth of the stack. A depth of 1000 or more is on the interrupts' stack.
    fn place(&mut self, depth: u64) -> Place {
        self.time += 1;
        let interrupt = depth >= 1000;
        let sp = if interrupt {
            INTERRUPTS - depth % 1000 * 16
        } else {
            STACK - depth * 16 - u64::from(self.tid) * THREAD_SIZE
        };
        Place { time: self.time, sp, tid: self.tid, cpu: 0, interrupt }
    }

    fn call(&mut self, function: u32, depth: u64) -> &mut Self {
        self.bio_call(function, depth, 0xb10, Bio { remaining: 1, ..Bio::default() })
    }

    fn bio_call(&mut self, function: u32, depth: u64, object: u64, bio: Bio) -> &mut Self {
        let place = self.place(depth);
        self.records.push(Record::Call(Called { place, function, object, bio: Some(bio) }));
        self
    }

    /// A return as on kernels that report which function returns.
    fn ret(&mut self, function: u32, depth: u64) -> &mut Self {
        let place = self.place(depth);
        self.records.push(Record::Return(Return { place, function: Some(function), value: 0 }));
        self
    }

    /// A return as on kernels that don't.
    fn nameless(&mut self, depth: u64) -> &mut Self {
        let place = self.place(depth);
        self.records.push(Record::Return(Return { place, function: None, value: 0 }));
        self
    }

    fn mark(&mut self, object: u64, what: Moment) -> &mut Self {
        self.time += 1;
        self.records.push(Record::Mark(Mark { time: self.time, object, what }));
        self
    }

    /// A call and its return, with nothing in between.
    fn both(&mut self, function: u32, depth: u64, object: u64, bio: Bio) -> &mut Self {
        self.bio_call(function, depth, object, bio).ret(function, depth)
    }

    pub(crate) fn tree(&mut self) -> Tree {
        let tree = self.tree_so_far();
        self.records.clear();
        tree
    }

    fn tree_so_far(&self) -> Tree {
        let function = |name: &str| Function {
            name: name.to_owned(),
            prototype: format!("{} {name}(struct bio *bio)", if name == "inner" { "int" } else { "void" }),
            argument: 1,
            returns: if name == "inner" { Returned::Signed(4) } else { Returned::Nothing },
            source: (name == "outer").then(|| "block/blk-core.c:905".to_owned()),
        };
        let functions = NAMES.map(function).to_vec();
        let flags = r#"{"flags":[[2048,"Sync"],[262144,"Preflush"]],"operations":{"0":"Read","1":"Write"}}"#;
        let flags = serde_json::from_str(flags).unwrap();
        let header =
            Header { class: "bio".into(), kernel: "6.12.0".into(), functions, flags, ..Header::default() };
        Tree::new(Recording { header, records: self.records.clone(), cut: false })
    }
}

#[test]
fn a_number_that_another_disk_has_now_means_that_disk() {
    let number = 252 << 20;
    let device = |name: &str| Record::Device(Device { number, name: name.into(), in_bio: (number, 0) });
    let mut script = Script::new();
    let bio = Bio { device: number, remaining: 1, ..Bio::default() };
    for (nth, name) in [(0, "first"), (1, ""), (2, "second")] {
        script.records.push(device(name));
        script.bio_call(SUBMIT, 10 * nth, 0xff11, bio).ret(SUBMIT, 10 * nth + 1);
    }
    let tree = script.tree();
    let names: Vec<_> = tree.lives.iter().map(|life| tree.device(number, life.start)).collect();
    assert_eq!(names, ["first", "first", "second"]);
    let view = serde_json::to_value(View::of(&tree)).unwrap();
    assert_eq!(view["calls"]["device"], serde_json::json!([0, 0, 1]));
}

/// A task on CPU 0 writes twice to a partition. An interrupt ends the first write, and a return in it is lost. The
/// second write was still in flight when the recording ended.
pub(crate) fn two_writes() -> Tree {
    let bio = |sector| Bio {
        sector,
        bytes: 4096,
        opf: 0x801,
        device: 259 << 20 | 1,
        remaining: 1,
        ..Bio::default()
    };
    let mut script = Script::new();
    script.records.push(Record::Device(Device {
        number: 259 << 20 | 1,
        name: "nvme0n1p1".into(),
        in_bio: (259 << 20 | 1, 0),
    }));
    script.bio_call(SUBMIT, 1, 0xff11, bio(800)).bio_call(OUTER, 2, 0xff11, bio(800));
    script.both(INNER, 3, 0xff22, Bio { remaining: 1, ..Bio::default() }).ret(OUTER, 2).ret(SUBMIT, 1);
    script.bio_call(SUBMIT, 1, 0xff33, bio(808)).by(8);
    script.bio_call(END, 1001, 0xff11, Bio { status: 10, ..bio(808) }).bio_call(LAST, 1002, 0xff11, bio(808));
    script.ret(END, 1001).by(7).ret(SUBMIT, 1);
    let losses = Losses { lost: vec![0, 3], suppressed: Some(1) };
    script.records.push(Record::Losses(losses));
    script.tree()
}

/// Each call as text: its depth, name, duration and thread, and `!` if it was in an interrupt.
fn calls(tree: &Tree) -> Vec<String> {
    let one = |call: &Call| {
        let duration = call.end.map_or("?".to_owned(), |end| (end - call.place.time).to_string());
        let mark = if call.place.interrupt { "!" } else { "" };
        let name = NAMES[call.function];
        format!("{}{mark}{name} {duration} {}", "  ".repeat(call.depth as usize), tree.tasks[call.task].comm)
    };
    tree.calls.iter().map(one).collect()
}

/// Each life: its start, its end, and the names of its calls.
fn lives(tree: &Tree) -> Vec<(u64, Option<u64>, Vec<&'static str>)> {
    let name = |call: &usize| NAMES[tree.calls[*call].function];
    tree.lives.iter().map(|life| (life.start, life.end, life.calls.iter().map(name).collect())).collect()
}

fn remaining(remaining: u32) -> Bio {
    Bio { remaining, ..Bio::default() }
}

#[test]
fn calls_are_in_those_that_made_them() {
    let tree = Script::new()
        .call(OUTER, 1)
        .call(INNER, 2)
        .ret(INNER, 2)
        .call(LAST, 2)
        .ret(LAST, 2)
        .ret(OUTER, 1)
        .tree();
    assert_eq!(calls(&tree), ["outer 5 t7", "  inner 1 t7", "  last 1 t7"]);
}

#[test]
fn a_function_that_ends_with_a_jump_is_around_its_target() {
    for nameless in [false, true] {
        let mut script = Script::new();
        script.call(OUTER, 1).call(INNER, 1);
        if nameless {
            script.nameless(1).nameless(1)
        } else {
            script.ret(INNER, 1).ret(OUTER, 1)
        };
        assert_eq!(calls(&script.tree()), ["outer 3 t7", "  inner 1 t7"], "{nameless}");
    }
}

#[test]
fn a_lost_return_does_not_disturb_later_calls() {
    // The return of the first `outer` is lost. Later calls have the same stack pointer, or are deeper, or further up.
    for depth in [1, 2, 0] {
        for nameless in [false, true] {
            let mut script = Script::new();
            script.call(OUTER, 1).call(INNER, 2).ret(INNER, 2).call(LAST, depth);
            if nameless {
                script.nameless(depth)
            } else {
                script.ret(LAST, depth)
            };
            script.call(OUTER, 1).ret(OUTER, 1);
            assert_eq!(
                calls(&script.tree()),
                ["outer ? t7", "inner 1 t7", "last 1 t7", "outer 1 t7"],
                "{depth} {nameless}"
            );
        }
    }
}

#[test]
fn a_lost_return_of_an_inner_call_leaves_the_outer_one_whole() {
    let tree = Script::new().call(OUTER, 1).call(INNER, 2).call(LAST, 3).ret(LAST, 3).ret(OUTER, 1).tree();
    assert_eq!(calls(&tree), ["outer 4 t7", "  inner ? t7", "  last 1 t7"]);
}

#[test]
fn a_return_without_its_call_ends_no_other() {
    let tree = Script::new().ret(INNER, 2).call(OUTER, 1).ret(INNER, 1).ret(OUTER, 1).tree();
    assert_eq!(calls(&tree), ["outer 2 t7"]);
}

#[test]
fn an_interrupt_is_no_child_of_what_it_interrupts() {
    let tree = Script::new()
        .call(OUTER, 1)
        .call(END, 1001)
        .call(INNER, 1002)
        .ret(INNER, 1002)
        .ret(END, 1001)
        .call(LAST, 2)
        .ret(LAST, 2)
        .ret(OUTER, 1)
        .tree();
    assert_eq!(calls(&tree), ["outer 7 t7", "!bio_endio 3 t7", "  !inner 1 t7", "  last 1 t7"]);
}

#[test]
fn tasks_that_take_turns_have_separate_trees() {
    let tree = Script::new()
        .call(OUTER, 1)
        .by(8)
        .call(OUTER, 1)
        .call(INNER, 2)
        .by(7)
        .ret(OUTER, 1)
        .by(8)
        .ret(INNER, 2)
        .ret(OUTER, 1)
        .tree();
    assert_eq!(calls(&tree), ["outer 3 t7", "outer 4 t8", "  inner 2 t8"]);
}

#[test]
fn a_life_goes_from_submit_to_the_end_and_its_address_may_come_again() {
    let mut script = Script::new();
    script.call(LAST, 1).ret(LAST, 1);
    for _ in 0..2 {
        script.call(SUBMIT, 1).call(INNER, 2).ret(INNER, 2).ret(SUBMIT, 1);
        script.call(END, 1001).call(LAST, 1002).ret(LAST, 1002).ret(END, 1001);
    }
    let tree = script.call(OUTER, 1).ret(OUTER, 1).tree();
    let names = vec!["submit_bio", "inner", "bio_endio"];
    assert_eq!(lives(&tree), [(3, Some(7), names.clone()), (11, Some(15), names)]);
    let of: Vec<_> = tree.calls.iter().map(|call| call.life).collect();
    assert_eq!(of, [None, Some(0), Some(0), Some(0), None, Some(1), Some(1), Some(1), None, None]);
}

#[test]
fn an_end_that_was_not_seen_leaves_a_life_open() {
    let tree = Script::new()
        .both(SUBMIT, 1, 0xb10, remaining(1))
        .call(SUBMIT, 1)
        .ret(SUBMIT, 1)
        .call(END, 1001)
        .tree();
    assert_eq!(lives(&tree), [(1, None, vec!["submit_bio"]), (3, Some(5), vec!["submit_bio", "bio_endio"])]);
}

#[test]
fn a_bio_that_was_split_ends_with_the_last_of_its_pieces() {
    let piece =
        |remaining, parent_remaining| Bio { remaining, parent: 0xb10, parent_remaining, ..Bio::default() };
    let mut script = Script::new();
    script.bio_call(SUBMIT, 1, 0xb10, remaining(1)).both(INNER, 2, 0xc1d, piece(1, 2)).ret(SUBMIT, 1);
    // First the rest of the bio ends, which is one end of two. Then its piece ends, and in that call the kernel ends
    // the bio.
    script.both(END, 1001, 0xb10, remaining(2)).both(OUTER, 1001, 0xc1d, piece(1, 1));
    script.both(END, 1001, 0xc1d, piece(1, 1)).both(LAST, 1001, 0xc1d, piece(1, 1));
    let whole = vec!["submit_bio", "inner", "bio_endio", "outer", "bio_endio"];
    assert_eq!(lives(&script.tree()), [(1, Some(9), whole.clone())]);

    // The other way around.
    let mut script = Script::new();
    script.bio_call(SUBMIT, 1, 0xb10, remaining(1)).both(INNER, 2, 0xc1d, piece(1, 2)).ret(SUBMIT, 1);
    script.both(END, 1001, 0xc1d, piece(1, 2)).both(OUTER, 1001, 0xb10, remaining(1));
    script.both(END, 1001, 0xb10, remaining(1));
    assert_eq!(lives(&script.tree())[0].1, Some(9));

    // Only one of the two has ended.
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xb10, remaining(1)).both(END, 1001, 0xb10, remaining(2));
    assert_eq!(lives(&script.tree())[0].1, None);
}

#[test]
fn a_life_has_the_times_of_the_request_that_it_waited_for() {
    use Moment::{Done, Issued, Made};
    let request = |script: &mut Script| script.tree().lives[0].request;
    // Another bio has marks, too, and the driver gives the request back once.
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xb10, remaining(1)).mark(0xb10, Made).mark(0xc1d, Made).mark(0xb10, Issued);
    script.mark(0xb10, Issued).mark(0xc1d, Issued).mark(0xb10, Done).mark(0xc1d, Done);
    assert_eq!(request(script.both(END, 1001, 0xb10, remaining(1))), Some([3, 5, 8]));
    assert_eq!(request(script.both(SUBMIT, 1, 0xb10, remaining(1)).both(END, 1, 0xb10, remaining(1))), None);

    // The last piece decides.
    let piece = Bio { remaining: 1, parent: 0xb10, parent_remaining: 2, ..Bio::default() };
    for [first, last] in [[0xb10, 0xc1d], [0xc1d, 0xb10]] {
        let mut script = Script::new();
        script.both(SUBMIT, 1, 0xb10, remaining(1)).both(INNER, 2, 0xc1d, piece);
        script.mark(first, Made).mark(first, Issued).mark(last, Made).mark(last, Issued);
        script.mark(first, Done).mark(last, Done).both(END, 1001, 0xc1d, piece);
        assert_eq!(request(script.both(END, 1001, 0xb10, remaining(1))), Some([7, 8, 10]), "{last:x}");
    }

    // A write that waits for a flush, and one that doesn't but comes at the same time.
    for (opf, issued) in [(1 | 262_144, 4), (1, 5)] {
        let mut script = Script::new();
        script.both(SUBMIT, 1, 0xb10, Bio { opf, ..remaining(1) }).mark(0xb10, Made).mark(0, Issued);
        script.mark(0xb10, Issued).mark(0xb10, Done);
        assert_eq!(request(script.both(END, 1001, 0xb10, remaining(1))), Some([3, issued, 6]));
    }
}

#[test]
fn the_first_error_of_a_piece_is_that_of_the_bio() {
    const EIO: u8 = 10;
    let piece = Bio { remaining: 1, parent: 0xb10, parent_remaining: 2, status: EIO, ..Bio::default() };
    let mut script = Script::new();
    script.bio_call(SUBMIT, 1, 0xb10, remaining(1)).both(INNER, 2, 0xc1d, piece).ret(SUBMIT, 1);
    script.both(END, 1001, 0xc1d, piece).both(END, 1001, 0xb10, remaining(1));
    let life = &script.tree().lives[0];
    assert_eq!((life.end, life.status), (Some(7), EIO));
}

#[test]
fn two_cpus_may_end_it_at_the_same_time() {
    // Both see that two ends remain, because neither has counted its own yet.
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xb10, remaining(1));
    script.bio_call(END, 1, 0xb10, remaining(2)).by(8).bio_call(END, 1, 0xb10, remaining(2));
    script.ret(END, 1).by(7).ret(END, 1);
    assert_eq!(lives(&script.tree())[0].1, Some(4));
}

#[test]
fn a_chain_of_any_length_ends_in_one_call() {
    const LENGTH: u64 = 100;
    // Each bio but the last is chained to the next one, and all of them are submitted.
    let bio = |nth: u64, remaining: u32| Bio {
        remaining,
        parent: if nth + 1 < LENGTH { 0xb10 + nth + 1 } else { 0 },
        parent_remaining: if nth + 1 < LENGTH { remaining } else { 0 },
        ..Bio::default()
    };
    for first in [0, 5, LENGTH - 1] {
        let mut script = Script::new();
        for nth in 0..LENGTH {
            script.both(SUBMIT, 1, 0xb10 + nth, bio(nth, 1));
        }
        // All have ended except this one. Each waits for the bio before it, so this one ends all that follow it.
        for nth in (0..first).chain(first + 1..LENGTH) {
            let waits = if nth == 0 || nth < first { 1 } else { 2 };
            script.both(END, 1001, 0xb10 + nth, Bio { parent_remaining: 2, ..bio(nth, waits) });
        }
        let before = script.tree_so_far().lives.iter().filter(|life| life.end.is_some()).count();
        assert_eq!(before as u64, first);
        let end = Bio { parent_remaining: 1, ..bio(first, 1) };
        script.both(END, 1001, 0xb10 + first, end);
        let last = script.time - 1;
        let tree = script.tree();
        assert_eq!(tree.lives.iter().filter(|life| life.end == Some(last)).count() as u64, LENGTH - first);
        assert!(tree.lives.iter().all(|life| life.end.is_some()));
    }
}

#[test]
fn a_chain_may_go_on_while_a_call_is_held_up() {
    let bio =
        |parent, remaining, parent_remaining| Bio { remaining, parent, parent_remaining, ..Bio::default() };
    // The first bio ends before the second one is submitted. Its call has not counted that yet when the second one ends,
    // and then the call that ends the chain is the second one's.
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xff11, bio(0xff22, 1, 2)).by(8).bio_call(END, 1, 0xff11, bio(0xff22, 1, 2));
    script.by(7).both(SUBMIT, 1, 0xff22, bio(0, 2, 0)).bio_call(END, 1, 0xff22, bio(0, 2, 0));
    script.by(8).ret(END, 1).by(7).ret(END, 1);
    assert_eq!(lives(&script.tree()).iter().map(|life| life.1).collect::<Vec<_>>(), [Some(3), Some(6)]);

    // It is held up until all others have ended, and ends them.
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xff11, bio(0xff22, 1, 2)).by(8).bio_call(END, 1, 0xff11, bio(0xff22, 1, 2));
    script.by(7).both(SUBMIT, 1, 0xff22, bio(0xff33, 2, 2)).both(END, 1, 0xff22, bio(0xff33, 2, 2));
    script.both(SUBMIT, 1, 0xff33, bio(0, 2, 0)).both(END, 1, 0xff33, bio(0, 2, 0)).by(8).ret(END, 1);
    let ends: Vec<_> = lives(&script.tree()).iter().map(|life| life.1).collect();
    assert_eq!(ends, [Some(3), Some(6), Some(10)]);
}

#[test]
fn a_piece_of_a_piece_ends_the_whole_after_the_rest() {
    let piece =
        |parent, remaining, parent_remaining| Bio { remaining, parent, parent_remaining, ..Bio::default() };
    let whole = |script: &mut Script| {
        script.both(SUBMIT, 1, 0xb10, remaining(1)).both(INNER, 1, 0xc1d, piece(0xb10, 1, 2));
        script.both(INNER, 1, 0xd06, piece(0xc1d, 1, 2));
    };
    // The last to end is the rest of the whole, that of the piece, or the piece of the piece.
    let mut script = Script::new();
    whole(&mut script);
    script.both(END, 1001, 0xc1d, piece(0xb10, 2, 2)).both(END, 1001, 0xd06, piece(0xc1d, 1, 1));
    script.both(END, 1001, 0xb10, remaining(1));
    assert_eq!(lives(&script.tree())[0].1, Some(11));

    let mut script = Script::new();
    whole(&mut script);
    script.both(END, 1001, 0xb10, remaining(2)).both(END, 1001, 0xd06, piece(0xc1d, 1, 2));
    script.both(END, 1001, 0xc1d, piece(0xb10, 1, 1));
    assert_eq!(lives(&script.tree())[0].1, Some(11));

    let mut script = Script::new();
    whole(&mut script);
    script.both(END, 1001, 0xb10, remaining(2)).both(END, 1001, 0xc1d, piece(0xb10, 2, 1));
    script.both(END, 1001, 0xd06, piece(0xc1d, 1, 1));
    assert_eq!(lives(&script.tree())[0].1, Some(11));
}

/// The first of two bios in a chain has a piece, whose end is that of all.
pub(crate) fn piece_in_a_chain() -> Tree {
    let bio =
        |parent, remaining, parent_remaining| Bio { remaining, parent, parent_remaining, ..Bio::default() };
    let mut script = Script::new();
    script.both(SUBMIT, 1, 0xff11, bio(0xff22, 1, 2)).both(SUBMIT, 1, 0xff22, bio(0, 2, 0));
    script.both(END, 1001, 0xff22, bio(0, 2, 0)).both(END, 1001, 0xff11, bio(0xff22, 2, 1));
    script.both(END, 1001, 0xff33, bio(0xff11, 1, 1));
    script.tree()
}

#[test]
fn a_bio_that_is_its_own_parent_is_counted_once() {
    let bio = Bio { parent: 0xb10, parent_remaining: u32::MAX, ..remaining(1) };
    let tree = Script::new().both(SUBMIT, 1, 0xb10, bio).both(END, 1001, 0xb10, bio).tree();
    assert_eq!(lives(&tree)[0].1, Some(3));
}

#[test]
fn a_child_never_lasts_longer_than_its_parent() {
    // A return that was matched to the wrong call, which can happen if the kernel doesn't report the function.
    let tree = Script::new().call(OUTER, 2).call(INNER, 3).nameless(2).nameless(3).tree();
    for call in &tree.calls {
        let parent = call.parent.map(|parent| &tree.calls[parent]);
        assert!(parent.is_none_or(|parent| parent.end >= call.end));
    }
}

#[test]
fn no_events_make_an_empty_tree() {
    let tree = Script::new().tree();
    assert!(tree.calls.is_empty() && tree.lives.is_empty());
}

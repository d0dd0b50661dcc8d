//! Walks through the logs that the clinic has recorded.

use std::fs;
use std::path::{Path, PathBuf};

use bpf_refusal::{Walk, walk};

fn log(case: &str, kernel: &str) -> Walk {
    let file = clinic().join(case).join("logs").join(format!("{kernel}.log"));
    walk(&fs::read_to_string(&file).unwrap(), &[]).unwrap()
}

fn clinic() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/clinic")
}

/// The steps from which the last value that the last step reads comes.
fn origins(walk: &Walk) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = walk.steps.last();
    while let Some(step) = at {
        found.push(format!("{}: {}", step.instruction, step.text));
        at = step.reads.last().and_then(|(_, from)| walk.steps.get((*from)?));
    }
    found
}

#[test]
fn a_value_is_followed_to_where_it_came_from() {
    for kernel in ["5.10", "6.1", "6.12", "7.2"] {
        let walk = log("01-null-test", kernel);
        let names: Vec<_> = origins(&walk);
        assert_eq!(
            names,
            [
                "10: r1 = *(u64 *)(r7 +0)",
                "8: r7 = r0",
                "7: call bpf_map_lookup_elem#1",
                "6: r2 = r6",
                "3: r6 += -8",
                "2: r6 = r10"
            ],
            "{kernel}"
        );
        assert_eq!(walk.words, ["R7 invalid mem access 'map_value_or_null'"]);
        assert_eq!(
            walk.steps[10 - 2].source.as_deref(),
            Some("duration = bpf_ktime_get_ns() - *start_time;")
        );
    }
}

#[test]
fn what_the_verifier_knew_is_as_in_the_log() {
    let walk = log("01-null-test", "7.2");
    let known = |nth: usize| walk.steps[nth].after.iter().map(|(name, value)| format!("{name}={value}"));
    let last = walk.steps.len() - 2;
    let pointer = "map_value_or_null(id=1,map=start_map,ks=8,vs=8)";
    // The call has left nothing in the registers of its arguments, and `r0` is that of the second call.
    let expected =
        ["fp-8=ptr_bio()", "r0=scalar()", "r10=fp0", "r6=fp-8", &format!("r7={pointer}")].map(str::to_owned);
    assert_eq!(known(last).collect::<Vec<_>>(), expected);
    assert!(known(last - 1).any(|shown| shown == format!("r0={pointer}")));
    assert_eq!(walk.steps[0].location.as_ref().map(|at| at.line), Some(26));
}

/// The log does not show that the verifier has forgotten the copy, too.
#[test]
fn a_record_that_was_submitted_is_not_known_any_more() {
    for kernel in ["5.10", "6.1", "6.12", "7.2"] {
        let walk = log("11-record-used-after", kernel);
        assert_eq!(walk.steps.last().unwrap().reads[0].0, "r6");
        let before = &walk.steps[walk.steps.len() - 2];
        assert_eq!(
            (&*before.text, before.after.get("r6")),
            ("call bpf_ringbuf_submit#132", None),
            "{kernel}"
        );
    }
    let walk = log("11-record-used-after", "7.2");
    let tested = walk.steps.iter().find(|step| step.text == "if r6 == 0x0 goto pc+27").unwrap();
    assert_eq!((tested.after["r6"].starts_with("ringbuf_mem("), tested.after.get("r0")), (true, None));
}

/// Comparing with NULL makes a pointer of it on one side, and zero on the other.
#[test]
fn the_other_side_of_a_branch_forgets_the_first() {
    let warnings = "libbpf: prog 'p': -- BEGIN PROG LOAD LOG --
0: (bf) r6 = r0
1: (15) if r6 == 0x0 goto pc+2        ; R3_w=9 R6_w=map_value(off=0)
2: (b7) r1 = 7                        ; R1_w=7
3: (95) exit

from 1 to 4: R6_w=0 R10=fp0
4: (79) r1 = *(u64 *)(r6 +0)
R6 invalid mem access 'scalar'
-- END PROG LOAD LOG --";
    let walk = walk(warnings, &[]).unwrap();
    let numbers: Vec<_> = walk.steps.iter().map(|step| step.instruction).collect();
    assert_eq!(numbers, [0, 1, 4]);
    let known: Vec<_> = walk.steps[1].after.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(known, ["r10=fp0", "r6=0"]);
}

#[test]
fn each_recorded_log_has_a_path_to_its_refusal() {
    let mut walks = 0;
    let cases = fs::read_dir(clinic()).unwrap().flatten().map(|entry| entry.path().join("logs"));
    for log in cases.filter(|logs| logs.is_dir()).flat_map(|logs| fs::read_dir(logs).unwrap().flatten()) {
        let Ok(text) = fs::read_to_string(log.path()) else { continue };
        let Some(walk) = walk(&text, &[]) else { continue };
        let name = log.path();
        walks += 1;
        assert!(!walk.words.is_empty(), "{}", name.display());
        for (nth, step) in walk.steps.iter().enumerate() {
            assert!(
                step.reads.iter().all(|(_, from)| from.is_none_or(|from| from < nth)),
                "{}",
                name.display()
            );
        }
    }
    assert!(walks > 80, "{walks}");
}

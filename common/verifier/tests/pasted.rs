//! The same refusal in the forms in which people paste it.

use std::fmt::Write;

use bpf_refusal::{explain, walk};

/// What the kernel wrote.
const LOG: &str = "0: R1=ctx(off=0,imm=0) R10=fp0
; int count(struct pt_regs *ctx)
0: (b7) r6 = 7                        ; R6_w=7
1: (63) *(u32 *)(r10 -4) = r6
last_idx 1 first_idx 0
regs=40 stack=0 before 0: (b7) r6 = 7
2: (bf) r2 = r10
3: (07) r2 += -4
; u64 *value = bpf_map_lookup_elem(&counts, &key);
4: (18) r1 = 0xffff8e21015e5a00
6: (85) call bpf_map_lookup_elem#1
 R0_w=map_value_or_null(id=1,off=0,ks=4,vs=8,imm=0) R10=fp0 fp-8=mmmm????

from 6 to 7: R0_w=map_value_or_null(id=1,off=0,ks=4,vs=8,imm=0) R10=fp0 fp-8=mmmm????
; *value += 1;
7: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
processed 8 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
";

/// The log with a text before each line, which may have a number that grows.
fn before_each(prefix: impl Fn(usize) -> String) -> String {
    LOG.lines().enumerate().fold(String::new(), |mut text, (nth, line)| {
        let _ = writeln!(text, "{}{line}", prefix(nth));
        text
    })
}

/// As people paste it: a name, the text, and whether the text names the program.
fn forms() -> Vec<(&'static str, String, bool)> {
    let indented = |by: &str| before_each(|_| by.to_owned());
    let libbpf = format!(
        "libbpf: prog 'count': BPF program load failed: Permission denied\nlibbpf: prog 'count': -- BEGIN PROG LOAD LOG --\n{LOG}-- END PROG LOAD LOG --\nlibbpf: prog 'count': failed to load: -13\n"
    );
    let escaped = LOG.replace('\n', "\\n\\t");
    let (_, after) = libbpf.split_once("BEGIN PROG LOAD LOG --\n").unwrap();
    let (before, _) = libbpf.split_once("-- END PROG").unwrap();
    let mail = libbpf.lines().map(|line| format!("> {line}").trim_end().to_owned() + "\n");
    let journal = libbpf.lines().map(|line| format!("Nov 28 06:35:37 host-7 loader[1234]: {line}\n"));
    let dmesg = libbpf.lines().enumerate().map(|(nth, line)| format!("[  {}.{nth}] {line}\n", 97 + nth));
    vec![
        ("libbpf", libbpf.clone(), true),
        ("no end", before.to_owned(), true),
        ("no beginning", after.to_owned(), true),
        ("the log alone", LOG.to_owned(), false),
        (
            "libbpf 0.x",
            format!(
                "libbpf: load bpf program failed: Permission denied\nlibbpf: -- BEGIN DUMP LOG ---\nlibbpf: \n{LOG}\nlibbpf: -- END LOG --\nlibbpf: failed to load program 'count'\nlibbpf: failed to load object 'x.o'\n"
            ),
            true,
        ),
        (
            "aya",
            format!(
                "Error: the BPF_PROG_LOAD syscall failed. Verifier output: {LOG}\nCaused by:\n    Permission denied (os error 13)\n"
            ),
            false,
        ),
        (
            "aya in anyhow",
            format!(
                "Error: loading\n\nCaused by:\n    0: failed program load\n    1: the BPF_PROG_LOAD syscall failed. Verifier output: {}",
                indented("       ").trim_start()
            ),
            false,
        ),
        (
            "cilium/ebpf",
            format!(
                "loading objects: field Count: program count: load program: permission denied:\n{}",
                indented("\t")
            ),
            true,
        ),
        (
            "cilium/ebpf, whole and short",
            format!(
                "Verifier log: load program: permission denied:\n{}2026/11/28 11:24:15 loading objects: field Count: program count: load program: permission denied: 7: (79) r1 = *(u64 *)(r0 +0): R0 invalid mem access 'map_value_or_null' (14 line(s) omitted)\n",
                indented("\t")
            ),
            true,
        ),
        (
            "a structured log",
            format!(
                "{{\"level\":\"error\",\"error\":\"program count: load program: permission denied:\\n\\t{escaped}\"}}\n"
            ),
            true,
        ),
        (
            "iproute2",
            format!(
                "\nProg section 'classifier' rejected: Permission denied (13)!\n - Type:         3\n - Instructions: 12 (0 over limit)\n - License:      GPL\n\nVerifier analysis:\n\n{LOG}\nError fetching program/map!\nUnable to load program\n"
            ),
            false,
        ),
        (
            "bcc",
            format!(
                "bpf: Failed to load program: Permission denied\n{LOG}\nHINT: The 'map_value_or_null' error can happen if you dereference a pointer value from a map\n    lookup without first checking if that pointer is NULL.\n\nTraceback (most recent call last):\n  File \"./count.py\", line 7, in <module>\nException: Failed to load BPF program b'count': Permission denied\n"
            ),
            true,
        ),
        ("a mail", mail.collect(), true),
        ("a journal", journal.collect(), true),
        ("the kernel's log", dmesg.collect(), true),
        ("a container", before_each(|nth| format!("2026-11-28T17:54:26.02{nth:04}558Z ")), false),
        ("indented, in a fence", format!("```\n{}```\nWhat is wrong?\n", indented("        ")), false),
        ("from a page", libbpf.replace("  ", "\u{a0} "), true),
        ("in colors", before_each(|_| "\x1b[2m app  | \x1b[0m".to_owned()), false),
        ("from Windows", libbpf.replace('\n', "\r\n"), true),
        ("twice", format!("{LOG}\n\n{LOG}"), false),
    ]
}

#[test]
fn a_log_is_the_same_in_whatever_form_it_is_pasted() {
    let (_, libbpf, _) = &forms()[0];
    let expected = explain(libbpf, &[]).unwrap();
    assert_eq!(
        (expected.kind, expected.place.as_ref().unwrap().source.as_str()),
        ("null-test", "*value += 1;")
    );
    let steps = walk(libbpf, &[]).unwrap().steps;
    for (name, text, names_program) in forms() {
        let refusal = explain(&text, &[]).unwrap_or_else(|| panic!("{name}: no refusal in\n{text}"));
        let mut expected = expected.clone();
        expected.program = expected.program.filter(|_| names_program);
        assert_eq!(refusal, expected, "{name}:\n{text}");
        assert_eq!(walk(&text, &[]).unwrap().steps, steps, "{name}:\n{text}");
    }
}

/// Often there is nothing but the last lines.
#[test]
fn words_are_enough_for_a_cause() {
    for (text, kind) in [
        ("R0 invalid mem access 'map_value_or_null'", "null-test"),
        ("> R0 invalid mem access 'map_value_or_null'", "null-test"),
        (
            "7: (79) r1 = *(u64 *)(r0 +0): R0 invalid mem access 'map_value_or_null' (14 line(s) omitted)",
            "null-test",
        ),
        (
            "{\"error\": \"program p: load program: permission denied: invalid access to map value, value_size=8 off=8 size=1: R5 min value is outside of the allowed memory range (truncated, 73 line(s) omitted)\"}",
            "value-size",
        ),
        (
            "invalid access to map value, value_size=8 off=8 size=1; R5 min value is outside of the allowed memory range",
            "value-size",
        ),
        ("...\n12: (85) call bpf_csum_diff#28\nR3 !read_ok", "no-value"),
        (
            "last insn is not an exit or jmp\nprocessed 0 insns (limit 1000000) max_states_per_insn 0",
            "no-exit",
        ),
        (
            "libbpf: failed to load\nValidating find() func#1...\narg#0 of another form\nprocessed 0 insns",
            "unknown",
        ),
        ("5: (85) call pc+4\nsleepable global function f() called in IRQ-disabled region", "sleepable"),
        (
            "5: (85) call f#1\nrelease kfunc f expects referenced PTR_TO_BTF_ID passed to R1",
            "pointer-untrusted",
        ),
        (
            "5: (0f) r1 += r2\nmath between pkt pointer and register with unbounded min value is not allowed",
            "packet-bounds",
        ),
        (
            "5: (85) call f#1\nR4 unbounded memory access, use 'var &= const' or 'if (var < const)'\nR3 and R4 memory, len pair leads to invalid memory access",
            "size-unbounded",
        ),
        (
            "5: (85) call f#1\nR1 type=fp expected=map_ptr processed 5 insns (limit 1000000)",
            "helper-argument",
        ),
        (
            "5: (85) call bpf_tail_call#12\nexpected prog array map for tail callprocessed 5 insns",
            "map-helper",
        ),
        ("5: (71) r3 = *(u8 *)(r3 +0)\ninvalid access to map value, value_size=8 off=8 size=1", "value-size"),
        (
            "5: (85) call f#1\ninvalid access to memory, mem_size=9 off=4 size=0\nR3 min value is outside of the allowed memory range",
            "size-unbounded",
        ),
        ("5: (85) call f#1\ninvalid access to packet, off=14 size=0, R3(id=0,off=14,r=34)", "size-unbounded"),
        ("libbpf: failed to find BTF for extern 'bpf_wq_init': -2", "extern-missing"),
    ] {
        let refusal = explain(text, &[]).unwrap_or_else(|| panic!("no refusal in\n{text}"));
        assert_eq!(refusal.kind, kind, "{text}");
        // So little is no evidence for a change, and nothing announces one.
        assert!(refusal.change.is_none() && !refusal.cure.ends_with(':'), "{text}:\n{refusal}");
    }
}

/// Only programs for tracing have such macros.
#[test]
fn no_macro_is_advised_if_the_type_is_unknown() {
    let refusal =
        explain("5: (7b) *(u64 *)(r1 +8) = r2\ninvalid bpf_context access off=8 size=8", &[]).unwrap();
    assert_eq!(refusal.kind, "context-access");
    assert!(!refusal.cure.contains("BPF_"), "{}", refusal.cure);
}

#[test]
fn what_shows_no_refusal_is_none() {
    let accepted = "libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n0: (b7) r0 = 0\n1: (95) exit\nprocessed 2 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
    for text in ["", "PING 10.0.2.6: 3 packets", accepted, "0: (b7) r0 = 0\n1: (95) exit\n"] {
        assert_eq!(explain(text, &[]), None, "{text}");
    }
}

#[test]
fn bytes_need_not_be_utf8() {
    let line = "R0 invalid mem access 'map_value_or_null'\n";
    let wide: Vec<_> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [[b"caf\xe9\n", line.as_bytes()].concat(), [&b"\xff\xfe"[..], b"\n\0", &wide].concat()] {
        let refusal = explain(&bpf_refusal::text(&bytes), &[]);
        assert_eq!(refusal.map(|refusal| refusal.kind), Some("null-test"), "{bytes:?}");
    }
}

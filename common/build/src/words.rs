//! What the compiler's errors mean that do not say it themselves.

use std::path::Path;

/// Words of an error, and what they mean. Those of one meaning differ between versions of clang, from 14 to 22.
const MEANINGS: &[(&[&str], &str)] = &[
    (
        &["onvert to unsigned div/mod"],
        "BPF divides only unsigned numbers: use u64 for both, and keep the sign yourself if there can be one",
    ),
    (
        &["relocation against STT_SECTION in non-exec section"],
        "a variable has addresses in it, such as an array of strings or of functions, and libbpf can't fill these in: use an \
         array of arrays, static const char names[][8] = { ... }, or a switch",
    ),
    (
        &["failed to find BTF info for global/extern symbol"],
        "the kernel has no C library with this function, and the compiler calls it: write a loop with a constant limit instead",
    ),
    (
        &["A call to built-in function 'mem"],
        "the kernel has no C library: copy or fill with a constant size, or with bpf_probe_read_kernel()",
    ),
    (
        &["A call to built-in function '__"],
        "BPF has no floating-point numbers and no numbers of 128 bits: calculate with u64, in a smaller unit",
    ),
    (
        &["BPF stack limit"],
        "keep the largest variable in a per-CPU array with one entry instead of on the stack, or make it smaller",
    ),
    (
        &["defined with too many args", "stack arguments are not supported"],
        "a function in BPF has at most five arguments: pass the address of a struct",
    ),
    (
        &["VarArgs or StructRet are not supported", "aggregate returns are not supported"],
        "a function in BPF returns only a number: let it fill in a struct whose address it gets",
    ),
    (&["nsupported atomic operation"], "BPF adds atomically only to u32 and u64: use one of these"),
    (
        &["Invalid usage of the XADD return value"],
        "the value that __sync_fetch_and_add() returns needs Linux 5.12: don't use it",
    ),
    (&["unsupported dynamic stack allocation"], "an array on the stack must have a constant length"),
];

/// An error from `SOURCE:LINE` on, without the command line that libbpf-cargo puts before it and without the compiler's own
/// state if it crashed, and what it means.
pub fn explained(error: &str, source: &Path) -> String {
    let place = format!("{}:", source.display());
    let is_line = |from: &usize| error[from + place.len()..].starts_with(|c: char| c.is_ascii_digit());
    let from = error.match_indices(&place).map(|(from, _)| from).find(is_line);
    let text = from.map_or(error, |from| &error[from..]);
    let mut said = Vec::new();
    for line in text.lines() {
        const STATE: [&str; 3] =
            ["fatal error: error in backend: Cannot select", "PLEASE submit", "Stack dump:"];
        if STATE.iter().any(|begin| line.starts_with(begin)) {
            break;
        }
        said.push(line.trim_end());
    }
    let crashed = error.lines().find_map(|line| line.split_once(" on function '@")?.1.strip_suffix('\''));
    let crashed = crashed.map(|function| format!("clang crashed when it compiled {function}()"));
    said.extend(crashed.as_deref());
    let meaning = MEANINGS.iter().find(|(words, _)| words.iter().any(|words| error.contains(words)));
    said.extend(meaning.map(|(_, meaning)| *meaning));
    said.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilers_error_begins_with_its_file_and_line() {
        let error = "failed to build /a.bpf.c: command `clang -c /a.bpf.c` failed: /a.bpf.c:10:57: error: expected ';'\n  x";
        assert_eq!(explained(error, Path::new("/a.bpf.c")), "/a.bpf.c:10:57: error: expected ';'\n  x");
    }

    /// Statements that the compiler or the linker refuses, and a part of what it means.
    const REFUSED: &[(&str, &str)] = &[
        ("s64 a = bpf_ktime_get_ns(), b = a >> 3; count = a / b;", "only unsigned"),
        ("s64 a = bpf_ktime_get_ns(), b = a >> 3; count = a % b;", "only unsigned"),
        (
            "static const char *names[] = { \"read\", \"write\" }; bpf_printk(\"%s\", names[count & 1]);",
            "array of arrays",
        ),
        ("count = bpf_ktime_get_ns() * 1.5;", "no floating-point"),
        ("char large[600]; bpf_get_current_comm(large, 600); count = large[5];", "per-CPU array"),
        (
            "char some[count & 63]; bpf_get_current_comm(some, 8); count = some[0];",
            "clang crashed|constant length",
        ),
    ];

    #[test]
    fn what_the_compiler_refuses_is_a_few_lines_that_say_what_it_means() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("refused.bpf.c");
        for (statements, meaning) in REFUSED {
            let program = format!(
                "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\nu64 count;\nSEC(\"kprobe/submit_bio\")\nint entry(void *ctx)\n{{\n\t{statements}\n\treturn 0;\n}}\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n"
            );
            std::fs::write(&source, program).unwrap();
            let error = crate::compile(&source, folder.path()).unwrap_err();
            assert!(meaning.split('|').any(|meaning| error.contains(meaning)), "{statements}\n{error}");
            assert!(error.lines().count() <= 12, "{statements}\n{error}");
        }
    }
}

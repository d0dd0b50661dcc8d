//! What the compiler's errors mean that do not say it themselves.

use std::fs;
use std::path::Path;

/// Each header of libbpf, and the beginnings of what it defines.
const HEADERS: &[(&str, &[&str])] = &[
    ("vmlinux.h", &["'u8'", "'u16'", "'u32'", "'u64'", "'__u32'", "'__u64'"]),
    (
        "bpf/bpf_helpers.h",
        &["SEC", "__uint", "__type", "bpf_printk", "bpf_map_", "bpf_ktime_get_", "bpf_get_current_"],
    ),
    ("bpf/bpf_tracing.h", &["BPF_KPROBE", "BPF_KRETPROBE", "BPF_PROG", "BPF_KSYSCALL", "PT_REGS_"]),
    ("bpf/bpf_core_read.h", &["BPF_CORE_READ", "bpf_core_"]),
];

/// How the compiler complains about a name that it doesn't know.
const UNKNOWN: [&str; 8] = [
    "call to undeclared function",
    "expected ';' after top level declarator",
    "expected identifier",
    "expected parameter declarator",
    "implicit declaration of function",
    "type specifier missing",
    "undeclared identifier",
    "unknown type name",
];

/// Words of an error, and what they mean. Those of one meaning differ between versions of clang, from 14 to 22.
const MEANINGS: &[(&[&str], &str)] = &[
    (
        &[
            "BPF_HASH(",
            "BPF_ARRAY(",
            "BPF_HISTOGRAM(",
            "BPF_PERF_OUTPUT(",
            "BPF_PERCPU_",
            "BPF_STACK_TRACE(",
            "BPF_TABLE(",
        ],
        "this is a macro of bcc, which libbpf does not have: define the map as an anonymous struct with __uint(type, ...) and so on, \
         in SEC(\".maps\"), as the stages do",
    ),
    (
        &["'struct bpf_map_def'", "legacy map definitions"],
        "libbpf 1.0 and newer do not know struct bpf_map_def and SEC(\"maps\"): define the map as an anonymous struct with \
         __uint(type, ...) and so on, in SEC(\".maps\"), as the stages do",
    ),
    (
        &["/usr/include/", "'linux/", "'asm/", "'uapi/", "'sys/"],
        "leave out this #include: vmlinux.h has the kernel's types, and there is no C library. It has no macros: #define those \
         that you need",
    ),
    (&["library function 'printf'"], "the kernel has no printf(): use bpf_printk()"),
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

/// What an error means that is about a name that the compiler doesn't know, if we do.
fn unknown_name(error: &str, source: &str) -> Option<String> {
    let complaint = error.lines().find(|line| UNKNOWN.iter().any(|words| line.contains(words)))?;
    let missing = |(header, names): &&(&str, &[&str])| {
        !source.contains(header) && names.iter().any(|name| error.contains(name))
    };
    if let Some((header, _)) = HEADERS.iter().find(missing) {
        return Some(format!("the #include of {header} is missing, which defines this"));
    }
    let (_, name) =
        complaint.split_once("undeclared identifier '").or_else(|| complaint.split_once("function '"))?;
    let (name, _) = name.split_once('\'')?;
    let is_macro = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let of_kernel = complaint.contains("function '") && !name.starts_with("bpf_");
    match (is_macro, of_kernel) {
        (true, _) => Some(format!(
            "vmlinux.h has no macros: #define {name} with the value that it has in the kernel's sources"
        )),
        (_, true) => Some(format!(
            "a program can't call functions of the kernel, only helpers, whose names begin with bpf_, and its own: do by hand what \
             {name}() does"
        )),
        _ => None,
    }
}

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
    let meaning = meaning.map(|(_, meaning)| (*meaning).to_owned());
    let meaning =
        meaning.or_else(|| unknown_name(&said.join("\n"), &fs::read_to_string(source).unwrap_or_default()));
    said.extend(meaning.as_deref());
    said.join("\n")
}

/// Why `main.rs` can't use a skeleton, where Rust's own error would not name the BPF source.
pub fn unusable(skeleton: &str, main: &str) -> Option<String> {
    if !skeleton.contains("pub links:") {
        return Some(
            "it has no program: a function with SEC(\"kprobe/...\") or another type before it".to_owned(),
        );
    }
    let records = main.split("record!(").skip(1).filter_map(|record| record.split_once(')'));
    records.map(|(record, _)| record).find_map(|record| {
        let name = record.split([' ', '{']).next()?.rsplit("::").next()?;
        let (_, fields) = skeleton.split_once(&format!("pub struct {name} {{"))?;
        let (fields, _) = fields.split_once('}')?;
        let names = fields.split("pub ").filter_map(|field| Some(field.split_once(':')?.0));
        let pad = names.filter(|field| field.starts_with("__pad_")).find(|pad| !record.contains(pad))?;
        Some(format!(
            "struct {name} has bytes that are in no field, because a field of 8 bytes needs an address that is a multiple of 8\n\
             use u64 instead of a smaller type, or list these bytes in main.rs, too: record!({name} {{ ..., {pad} }})"
        ))
    })
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
    fn a_skeleton_that_main_cannot_use_is_an_error_about_the_source() {
        let skeleton = "pub struct Skel {\n pub links: Links,\n}\npub struct bio_info {\n pub bio: u64,\n pub cpu: u32,\n pub __pad_12: [u8; 4],\n}\npub struct other {\n pub __pad_0: [u8; 8],\n}";
        let main = "use bpf::types::bio_info;\ncommon::record!(bio_info { bio, cpu });\n";
        assert!(unusable(skeleton, main).unwrap().contains("record!(bio_info { ..., __pad_12 })"));
        assert_eq!(unusable(skeleton, &main.replace("cpu }", "cpu, __pad_12 }")), None);
        assert_eq!(unusable(skeleton, "fn main() {}"), None);
        assert!(unusable(&skeleton.replace("pub links", "links"), main).unwrap().contains("no program"));
    }

    /// Whole sources that the compiler refuses, and a part of what it means.
    const SOURCES: &[(&str, &str)] = &[
        ("struct bpf_map_def SEC(\"maps\") start = { .type = BPF_MAP_TYPE_HASH };", "SEC(\".maps\")"),
        ("BPF_HASH(start, u64);", "macro of bcc"),
        ("BPF_PERF_OUTPUT(events);", "macro of bcc"),
        ("#include <linux/blkdev.h>", "leave out this #include"),
        ("#include <linux/bpf.h>", "leave out this #include"),
        ("#include <stdio.h>", "leave out this #include"),
        (
            "u64 f(struct bio *bio) { return BPF_CORE_READ(bio, bi_iter.bi_size); }",
            "bpf/bpf_core_read.h is missing",
        ),
        ("int BPF_KPROBE(entry, struct bio *bio) { return 0; }", "bpf/bpf_tracing.h is missing"),
        ("u64 f(void) { return PAGE_SHIFT; }", "#define PAGE_SHIFT"),
        ("int f(struct bio *bio) { return bio_data_dir(bio); }", "what bio_data_dir() does"),
        ("int f(void) { printf(\"f\"); return 0; }", "bpf_printk"),
    ];

    #[test]
    fn what_others_write_has_a_word_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("others.bpf.c");
        let includes = "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\n";
        let mut sources: Vec<_> =
            SOURCES.iter().map(|(text, meaning)| (format!("{includes}{text}\n"), *meaning)).collect();
        sources.push(("#include <bpf/bpf_helpers.h>\n".to_owned(), "vmlinux.h is missing"));
        sources.push((
            "#include \"vmlinux.h\"\nchar L[] SEC(\"license\") = \"GPL\";\n".to_owned(),
            "bpf/bpf_helpers.h is missing",
        ));
        for (text, meaning) in sources {
            std::fs::write(&source, &text).unwrap();
            let error = crate::compile(&source, folder.path()).unwrap_err();
            let last = error.lines().last().unwrap_or_default();
            assert!(last.contains(meaning), "{text}\n{error}");
        }
    }

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

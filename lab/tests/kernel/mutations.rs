//! Breaks a BPF program by machine, in ways that people do by mistake. Each rule knows what it broke and where, and so
//! what the kernel must be understood to say about it. The rules know nothing about the words of a kernel.
//!
//! No rule moves a line, so the numbers of lines stay what they are.

use std::ops::Range;

/// A broken program.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The rule that broke it.
    pub rule: &'static str,
    /// The kind of mistake.
    pub kind: &'static str,
    /// The lines that are a right answer to where the mistake is; none if it is in no line.
    pub lines: Vec<usize>,
    /// The program.
    pub source: String,
}

/// What a rule changes: lines by their index, with their new text; text to add at the end; and the lines that are a right
/// answer, by their index.
#[derive(Default)]
struct Edit {
    changed: Vec<(usize, String)>,
    added: &'static str,
    answers: Vec<usize>,
}

impl Edit {
    fn new(at: usize, line: String, answers: Vec<usize>) -> Self {
        Self { changed: vec![(at, line)], added: "", answers }
    }
}

/// A mistake that is made by changing a line: its name, its kind, and the edits for the line with this index.
type Rule = (&'static str, &'static str, fn(&Source<'_>, usize) -> Vec<Edit>);

const RULES: &[Rule] = &[
    ("NULL test left out", "null-test", without_null_test),
    ("NULL test turned round", "null-test", null_test_turned_round),
    ("mask left out", "array-index", without_mask),
    ("mask too large", "array-index", with_larger_mask),
    ("limit left out", "array-index", without_limit),
    ("limit too large", "array-index", with_larger_limit),
    ("submit left out", "record-not-released", without_submit),
    ("return before submit", "record-not-released", return_before_submit),
    ("release left out", "reference-not-released", without_release),
    ("submitted twice", "record-released-twice", submitted_twice),
    ("used after submit", "record-used-after", used_after),
    ("other license", "gpl-only", other_license),
    ("no license", "gpl-only", no_license),
    ("returns 1", "return-value", returns_one),
    ("returns anything", "return-value", returns_anything),
    ("key instead of its address", "helper-argument", key_by_value),
    ("other context", "helper-argument", other_context),
    ("size too large", "buffer-too-small", size_too_large),
    ("size too large for a value", "value-size", size_too_large_for_value),
    ("smaller record", "value-size", smaller_record),
    ("smaller value", "value-size", smaller_value),
    ("larger key", "buffer-too-small", larger_key),
    ("direct read", "kernel-pointer", direct_read),
    ("value left out", "stack-uninitialized", without_value),
    ("kprobe becomes fentry", "context-access", kprobe_becomes_fentry),
    ("no such function", "function-missing", no_such_function),
    ("no such section", "section-unknown", no_such_section),
    ("more arguments", "argument-missing", more_arguments),
    ("map without entries", "map-type-missing", without_entries),
    ("map too large", "map-too-large", map_too_large),
    ("map made static", "map-static", static_map),
    ("map of another type", "map-helper", other_map),
    ("field's test always true", "field-missing", field_always),
    ("field's test always false", "field-missing", field_never),
    ("helper's test always true", "helper-missing", helper_always),
    ("kfunc's test always true", "kfunc-missing", kfunc_always),
    ("function not static", "global-function", not_static),
    ("lock in a value", "spin-lock", lock_in_value),
];

/// Sections of kprobes, and of programs whose arguments have types.
const KPROBE: &[&str] = &["kprobe", "kretprobe"];
const TYPED: &[&str] = &["fentry/", "fexit/", "tp_btf/"];
const BOTH: &[&str] = &["kprobe", "kretprobe", "fentry/", "fexit/", "tp_btf/"];
const ALL: &[&str] = &["kprobe", "kretprobe", "fentry/", "fexit/", "tp_btf/", "tracepoint/"];

/// A mistake that is made by adding statements at the beginning of a program: its kind, the sections, the statements, and
/// what they need at the end of the file. If `is_somewhere`, the line is the right answer.
struct Inserted {
    kind: &'static str,
    sections: &'static [&'static str],
    statements: &'static str,
    added: &'static str,
    is_somewhere: bool,
}

const fn inserted(
    kind: &'static str,
    sections: &'static [&'static str],
    statements: &'static str,
) -> Inserted {
    Inserted { kind, sections, statements, added: "", is_somewhere: true }
}

const INSERTED: &[Inserted] = &[
    inserted("endless-loop", ALL, "while (bpf_ktime_get_ns()) ;"),
    inserted("helper-missing", BOTH, "((long (*)(void))9999)();"),
    inserted("helper-argument", BOTH, "bpf_map_delete_elem((void *)ctx, (void *)ctx);"),
    inserted("helper-not-allowed", ALL, "bpf_redirect(1, 0);"),
    inserted("helper-not-allowed", BOTH, "bpf_csum_update((void *)ctx, 0);"),
    inserted("helper-not-allowed", TYPED, "bpf_override_return((void *)ctx, 0);"),
    inserted("pointer-arithmetic", TYPED, "bpf_printk(\"%llu\", ctx[0] >> 8);"),
    inserted("pointer-arithmetic", TYPED, "bpf_printk(\"%llu\", ctx[0] * 3);"),
    inserted("pointer-arithmetic", TYPED, "bpf_printk(\"%llu\", ctx[0] & 63);"),
    inserted("pointer-arithmetic", TYPED, "bpf_printk(\"%llu\", ctx[0] + (u64)ctx);"),
    inserted("kernel-write", TYPED, "*(volatile u32 *)(ctx[0] + 4) = 0;"),
    inserted("kernel-pointer", KPROBE, "bpf_printk(\"%d\", *(volatile u32 *)(((u64 *)ctx)[14] + 8));"),
    inserted("kernel-pointer", KPROBE, "*(volatile u32 *)(((u64 *)ctx)[14] + 8) = 1;"),
    inserted(
        "kernel-pointer",
        BOTH,
        "u64 *task = (u64 *)bpf_get_current_task(); bpf_printk(\"%d\", *(volatile u64 *)task);",
    ),
    inserted("argument-missing", &["fentry/"], "bpf_printk(\"%llu\", ctx[7]);"),
    inserted("context-access", KPROBE, "bpf_printk(\"%llu\", *(volatile u64 *)((char *)ctx + 4096));"),
    inserted("context-access", BOTH, "*(volatile u64 *)ctx = 0;"),
    inserted("buffer-too-small", ALL, "char name[16]; bpf_get_current_comm(name, 600);"),
    inserted(
        "buffer-too-small",
        ALL,
        "char name[16]; bpf_get_current_comm(name, (bpf_ktime_get_ns() & 0xfff) + 1);",
    ),
    inserted("size-unbounded", ALL, "char name[16]; bpf_get_current_comm(name, bpf_ktime_get_ns() & 7);"),
    inserted("size-unbounded", ALL, "char name[16]; bpf_get_current_comm(name, bpf_ktime_get_ns());"),
    inserted(
        "size-unbounded",
        ALL,
        "char name[16]; u64 size = bpf_ktime_get_ns(); if (size > 7) bpf_probe_read_kernel(name, size, (void *)8);",
    ),
    inserted("array-index", ALL, "static u64 slots[8]; slots[bpf_get_prandom_u32() & 0xffff]++;"),
    inserted("array-index", ALL, "static u64 slots[8]; slots[bpf_get_prandom_u32()]++;"),
    inserted("value-size", ALL, "static u64 slots[8]; ((volatile u64 *)slots)[100000] = 1;"),
    inserted("read-only", ALL, "static const volatile u64 limit = 1; *(volatile u64 *)&limit = 2;"),
    inserted("misaligned", ALL, "volatile char buffer[16]; *(volatile u64 *)(buffer + 3) = 1;"),
    inserted("return-value", &["fentry/", "fexit/"], "if (bpf_get_prandom_u32()) return 1;"),
    inserted(
        "field-missing",
        ALL,
        "struct bio___no { int no_such; } __attribute__((preserve_access_index)); \
         struct bio___no no; bpf_probe_read_kernel(&no, 4, &((struct bio___no *)8)->no_such);",
    ),
    inserted(
        "too-complex",
        &["kprobe", "fentry/"],
        "for (int i = 0; i < 20000; i++) if (bpf_get_prandom_u32() & 1) asm volatile(\"\");",
    ),
    Inserted {
        is_somewhere: false,
        ..inserted("kfunc-missing", ALL, "extern int bpf_no_such(void) __ksym; bpf_no_such();")
    },
    Inserted {
        is_somewhere: false,
        ..inserted("extern-missing", ALL, "extern int getpid(void); bpf_printk(\"%d\", getpid());")
    },
    Inserted {
        is_somewhere: false,
        ..inserted("no-exit", ALL, "bpf_printk(\"end\"); __builtin_unreachable();")
    },
    Inserted {
        added: "__noinline int deeper(int n) { volatile int one = 1; return n ? deeper(n - 1) + one : 0; }",
        is_somewhere: false,
        ..inserted("recursion", ALL, "int deeper(int n); deeper(3);")
    },
    Inserted {
        added: "__noinline int deeper(int n) { volatile char large[400]; large[n & 255] = n; return large[n & 127]; }",
        is_somewhere: false,
        ..inserted(
            "stack-size",
            ALL,
            "int deeper(int n); volatile char large[200]; large[bpf_get_prandom_u32() & 127] = 1; deeper(large[3]);",
        )
    },
];

const RESERVE: &str = "bpf_ringbuf_reserve";

/// The first line of each mutant. Nobody who makes a mistake wants to hear about it from the compiler.
const FIRST: &str = "#pragma clang diagnostic ignored \"-Weverything\"";

/// A program as it is, and with each of the programs in it that user space chooses. These are never loaded otherwise, so
/// of such a variant, only the lines of that program are to be broken.
pub fn variants(source: &str) -> Vec<(String, Range<usize>)> {
    let marks: Vec<_> = source.match_indices("SEC(\"?").map(|(at, mark)| at + mark.len() - 1).collect();
    let chosen = |at: &usize| {
        let head = source[..*at].lines().count() - 1;
        let length = source[*at..].lines().position(|line| line == "}").unwrap_or_default();
        (format!("{}{}", &source[..*at], &source[at + 1..]), head..head + length)
    };
    [(source.to_owned(), 0..usize::MAX)].into_iter().chain(marks.iter().map(chosen)).collect()
}

/// The mutants of a program that change one of these lines.
pub fn mutations(text: &str, within: &Range<usize>) -> Vec<Mutation> {
    let source = Source::parse(text);
    let broken = |rule, kind, edit: Edit| {
        let mut lines: Vec<_> = source.lines.iter().map(|line| (*line).to_owned()).collect();
        FIRST.clone_into(&mut lines[0]);
        for (at, line) in edit.changed {
            lines[at] = line;
        }
        let lines = lines.join("\n") + "\n" + edit.added + "\n";
        Mutation { rule, kind, lines: edit.answers.iter().map(|at| at + 1).collect(), source: lines }
    };
    let mut all = Vec::new();
    for (rule, kind, edits) in RULES {
        let lines = (0..source.lines.len()).filter(|at| within.contains(at));
        let edits = lines.flat_map(|at| edits(&source, at));
        all.extend(edits.map(|edit| broken(rule, kind, edit)));
    }
    let is_it = |function: &&Function| function.is_loaded && within.contains(&function.open);
    for function in source.functions.iter().filter(is_it) {
        for new in INSERTED.iter().filter(|new| function.is_in(new.sections)) {
            let line = format!("{{ {{ {} }}", new.statements);
            // See `returns`.
            let first = if new.kind == "return-value" { function.head } else { function.open };
            let answers = if new.is_somewhere { (first..=function.open).collect() } else { Vec::new() };
            let edit = Edit { added: new.added, ..Edit::new(function.open, line, answers) };
            all.push(broken(new.statements, new.kind, edit));
        }
    }
    all
}

/// A function of a program.
struct Function {
    name: String,
    /// What is in `SEC()`; empty if it has none.
    section: String,
    is_loaded: bool,
    parameters: Vec<String>,
    /// The lines of its head, of `{`, and of `}`.
    head: usize,
    open: usize,
    close: usize,
}

impl Function {
    fn is_in(&self, sections: &[&str]) -> bool {
        sections.iter().any(|begin| self.section.starts_with(begin))
    }

    /// Its parameters' names.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|parameter| last_word(parameter))
    }
}

/// A map.
struct Map {
    name: String,
    kind: String,
    lines: Range<usize>,
}

/// A program's source.
struct Source<'a> {
    lines: Vec<&'a str>,
    functions: Vec<Function>,
    maps: Vec<Map>,
}

impl<'a> Source<'a> {
    fn parse(text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().collect();
        let before = |open: usize, is_end: fn(&str) -> bool| {
            lines[..open].iter().rposition(|line| is_end(line)).map_or(0, |at| at + 1)
        };
        let after = |open: usize, end: &str| {
            lines[open..].iter().position(|line| line.starts_with(end)).map_or(open, |at| open + at)
        };
        let function = |open: usize| {
            let head = before(open, |line| {
                line.is_empty() || line.starts_with('}') || line.ends_with("*/") || line.starts_with("#")
            });
            let text = lines[head..open].join(" ");
            let (section, text) = match text.strip_prefix("SEC(\"").and_then(|text| text.split_once("\")")) {
                Some((section, text)) => (section.to_owned(), text.to_owned()),
                None => (String::new(), text),
            };
            let (name, parameters) = text.rsplit_once(')')?.0.split_once('(')?;
            let mut parameters: Vec<_> = parameters.split(", ").map(|name| name.trim().to_owned()).collect();
            let mut name = last_word(name).to_owned();
            if name.starts_with("BPF_") {
                name = parameters.remove(0);
            }
            let (is_loaded, close) = (!section.is_empty() && !section.starts_with('?'), after(open, "}"));
            Some(Function { name, section, is_loaded, parameters, head, open, close })
        };
        let map = |end: usize| {
            let name = lines[end].strip_prefix("} ")?.strip_suffix(" SEC(\".maps\");")?.to_owned();
            let begin = before(end, |line| line.starts_with("struct {"));
            let kind =
                lines[begin..end].iter().find_map(|line| between(line, "__uint(type, BPF_MAP_TYPE_", ")"));
            Some(Map { name, kind: kind?.to_owned(), lines: begin..end })
        };
        let functions = (0..lines.len()).filter(|at| lines[*at] == "{").filter_map(function).collect();
        let maps = (0..lines.len()).filter_map(map).collect();
        Self { lines, functions, maps }
    }

    /// The function that a line is in.
    fn function(&self, at: usize) -> Option<&Function> {
        self.functions.iter().find(|function| function.open < at && at < function.close)
    }

    /// The lines of the statement that a line is in.
    fn statement(&self, at: usize) -> Vec<usize> {
        let is_end = |line: &str| line.is_empty() || line.ends_with([';', '{', '}', ':', '/']);
        let begin = self.lines[..at].iter().rposition(|line| is_end(line)).map_or(0, |before| before + 1);
        let end = self.lines[at..].iter().position(|line| is_end(line)).map_or(at, |more| at + more);
        (begin..=end).collect()
    }

    /// The pointers that a function gets from a lookup or a reservation before a line: each with the helper and the map.
    fn pointers(&self, at: usize) -> Vec<(&'a str, &'static str, &'a str)> {
        let Some(function) = self.function(at) else { return Vec::new() };
        let assigned = |line: &&'a str| {
            ["bpf_map_lookup_elem", RESERVE].into_iter().find_map(|helper| {
                let (left, right) = line.split_once(&format!(" = {helper}(&"))?;
                Some((last_word(left), helper, right.split(',').next()?))
            })
        };
        let mut all: Vec<_> = self.lines[function.open..=at].iter().filter_map(assigned).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Where a pointer is used first from a line on, as far as the end of the function; if that is in a function that
    /// it is passed to, there.
    fn first_use(&self, pointer: &str, from: usize) -> Option<usize> {
        let end = self.function(from)?.close;
        (from..end).find_map(|at| self.used_in(pointer, at))
    }

    /// All lines in which a function uses a pointer.
    fn uses(&self, pointer: &str, function: &Function) -> Vec<usize> {
        let all = (function.open..function.close).filter_map(|at| self.used_in(pointer, at));
        all.collect()
    }

    fn used_in(&self, pointer: &str, at: usize) -> Option<usize> {
        let line = self.lines[at];
        for function in self.functions.iter().filter(|function| function.section.is_empty()) {
            let Some(arguments) = between(line, &format!("{}(", function.name), ")") else { continue };
            let is_it = |argument: &str| {
                let argument = argument.trim().trim_start_matches('&');
                argument == pointer || argument.starts_with(&format!("{pointer}->"))
            };
            let nth = arguments.split(',').position(is_it);
            if let Some(name) = nth.and_then(|nth| function.names().nth(nth)) {
                return self.first_use(name, function.open + 1);
            }
        }
        let is_read = ["->", "["].iter().any(|after| has_word(line, pointer, after));
        let is_followed = line.match_indices(&format!("*{pointer}")).any(|(at, found)| {
            let is_declared = line[..at].trim_end().ends_with(|c: char| c.is_alphanumeric() || c == '_');
            !is_declared && !line[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        });
        let is_counted = line.contains(&format!("__sync_fetch_and_add({pointer},"));
        (is_read || is_followed || is_counted).then_some(at)
    }

    /// The lines with this text, in the function that a line is in, after that line.
    fn later(&self, at: usize, text: &str) -> Vec<usize> {
        let end = self.function(at).map_or(at, |function| function.close);
        (at..end).filter(|at| self.lines[*at].contains(text)).collect()
    }

    /// Where a path through a line ends: at the function's next `return`, or at those of its callers.
    fn ends(&self, at: usize) -> Vec<usize> {
        let Some(function) = self.function(at) else { return Vec::new() };
        let mut ends = self.later(at, "return");
        ends.push(function.close);
        // What the compiler puts at the end of several paths may belong to the branch that leads there.
        ends.extend((function.open..at).rfind(|at| self.lines[*at].contains("if (")));
        if function.section.is_empty() {
            let call = format!("{}(", function.name);
            let callers = (0..self.lines.len()).filter(|at| self.lines[*at].contains(&call));
            for caller in callers.filter(|at| self.function(*at).is_some_and(|of| of.name != function.name)) {
                ends.push(caller);
                ends.extend(self.ends(caller));
            }
        } else {
            ends.extend(function.head..=function.open);
        }
        ends
    }

    /// The map that a line of its definition is in.
    fn map(&self, at: usize) -> Option<&Map> {
        self.maps.iter().find(|map| map.lines.contains(&at))
    }
}

fn last_word(text: &str) -> &str {
    let text = text.trim();
    text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Whether a line has a word with this text directly after it.
fn has_word(line: &str, word: &str, after: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '>' || c == '.')
            && line[at + word.len()..].starts_with(after)
    })
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

fn without_null_test(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let mut edits = Vec::new();
    for (pointer, ..) in source.pointers(at) {
        let forms = [
            (format!("if (!{pointer})"), "if (0)".to_owned()),
            (format!("if ({pointer})"), "if (1)".to_owned()),
            (format!("{pointer} && "), String::new()),
            (format!("!{pointer} || "), String::new()),
            (format!("{pointer} ? *{pointer} : UNKNOWN"), format!("*{pointer}")),
        ];
        if let Some((test, instead)) = forms.iter().find(|(test, _)| line.contains(test.as_str()))
            && let Some(first) = source.first_use(pointer, at)
        {
            edits.push(Edit::new(at, line.replacen(test, instead, 1), source.statement(first)));
        }
    }
    edits
}

/// An index with a mask: `[index % 512]` or `[index & 63]`; the text before the mask, the operator, the number.
fn mask(line: &str) -> Option<(&str, &str, &str)> {
    let (index, _) = line.split_once(']')?;
    ["%", "&"].into_iter().find_map(|operator| {
        let (before, number) = index.rsplit_once(&format!(" {operator} "))?;
        (before.contains('[') && number.parse::<u32>().is_ok()).then_some((before, operator, number))
    })
}

/// The line itself, and where the pointer that it makes is used first.
fn index_answers(source: &Source<'_>, at: usize) -> Vec<usize> {
    let pointer = source.lines[at].split_once(" = &").map(|(left, _)| last_word(left));
    let first = pointer.and_then(|pointer| source.first_use(pointer, at + 1));
    [at].into_iter().chain(first).collect()
}

fn without_mask(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some((before, operator, number)) = mask(line) else { return Vec::new() };
    let new = line.replacen(&format!("{before} {operator} {number}"), before, 1);
    vec![Edit::new(at, new, index_answers(source, at))]
}

fn with_larger_mask(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some((before, operator, number)) = mask(line) else { return Vec::new() };
    // Far beyond all global variables.
    let (old, new) = (format!("{before} {operator} {number}"), format!("{before} & 0xfffff"));
    vec![Edit::new(at, line.replacen(&old, &new, 1), index_answers(source, at))]
}

fn limits(source: &Source<'_>, at: usize, forms: &[(&str, &str)]) -> Vec<Edit> {
    let line = source.lines[at];
    let answers = source.later(at, "[slot]");
    let form = forms.iter().find(|(limit, _)| line.contains(limit)).filter(|_| !answers.is_empty());
    form.map(|(limit, new)| Edit::new(at, line.replacen(limit, new, 1), answers)).into_iter().collect()
}

fn without_limit(source: &Source<'_>, at: usize) -> Vec<Edit> {
    limits(source, at, &[("slot >= SLOTS", "0"), ("slot < SLOTS", "1")])
}

fn with_larger_limit(source: &Source<'_>, at: usize) -> Vec<Edit> {
    limits(source, at, &[("slot >= SLOTS", "slot >= 2 * SLOTS"), ("slot < SLOTS", "slot < 2 * SLOTS")])
}

/// A line that gives a record back.
fn submitted<'a>(source: &Source<'a>, at: usize) -> Option<&'a str> {
    let is_it = |helper| source.lines[at].trim().starts_with(helper);
    ["bpf_ringbuf_submit(", "bpf_ringbuf_discard("].into_iter().any(is_it).then_some(source.lines[at])
}

fn without_submit(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let edit = submitted(source, at).map(|_| Edit::new(at, "\t;".to_owned(), source.ends(at)));
    edit.into_iter().collect()
}

fn return_before_submit(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let returns = |function: &Function| source.lines[function.head..function.open].concat().contains("int ");
    let edit = submitted(source, at).filter(|_| source.function(at).is_some_and(returns)).map(|line| {
        let answers = [at].into_iter().chain(source.ends(at)).collect();
        Edit::new(at, format!("\tif (bpf_get_prandom_u32() == 7) return 0; {line}"), answers)
    });
    edit.into_iter().collect()
}

fn without_release(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let is_it = source.lines[at].trim().starts_with("bpf_task_release(") && source.function(at).is_some();
    if is_it { vec![Edit::new(at, "\t;".to_owned(), source.ends(at))] } else { Vec::new() }
}

fn null_test_turned_round(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let turned = |(pointer, helper, _): (&str, &str, &str)| {
        let new = line.replacen(&format!("if (!{pointer})"), &format!("if ({pointer})"), 1);
        let first = source.first_use(pointer, at + 1).filter(|_| new != line && helper != RESERVE)?;
        Some(Edit::new(at, new, source.statement(first)))
    };
    source.pointers(at).into_iter().filter_map(turned).collect()
}

fn no_such_section(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let new = line.replacen("SEC(\"k", "SEC(\"kernel_", 1).replacen("SEC(\"f", "SEC(\"on_f", 1);
    if line.starts_with("SEC(") && new != line { vec![Edit::new(at, new, Vec::new())] } else { Vec::new() }
}

/// A condition that asks whether something exists, with 1 instead.
fn always(source: &Source<'_>, at: usize, begins: &[&str]) -> Vec<Edit> {
    let line = source.lines[at];
    let edit = begins.iter().find_map(|begin| {
        let asked = format!("{begin}{})", between(line, begin, ")")?);
        Some(Edit::new(at, line.replacen(&asked, "if (1)", 1), (at..at + 3).collect()))
    });
    edit.into_iter().collect()
}

fn helper_always(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some(asked) = between(line, "if (bpf_core_enum_value_exists(", "))") else { return Vec::new() };
    let new = line.replacen(&format!("bpf_core_enum_value_exists({asked})"), "1", 1);
    vec![Edit::new(at, new, (at..at + 3).collect())]
}

fn kfunc_always(source: &Source<'_>, at: usize) -> Vec<Edit> {
    always(source, at, &["if (bpf_task_from_pid"])
}

fn not_static(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let function =
        source.functions.iter().find(|function| function.head == at && function.section.is_empty());
    let Some(function) = function else { return Vec::new() };
    let is_pointer = |parameter: &&String| parameter.contains('*') && !parameter.contains("ctx");
    let pointers = function.parameters.iter().filter(is_pointer);
    let mut answers: Vec<_> = pointers.flat_map(|of| source.uses(last_word(of), function)).collect();
    if answers.is_empty() {
        return Vec::new();
    }
    let calls = format!("{}(", function.name);
    answers.extend((0..source.lines.len()).filter(|at| source.lines[*at].contains(&calls)));
    // Linux 5.10 refuses the function as a whole.
    answers.extend(function.head..=function.close);
    let line = source.lines[at];
    let new = line.replacen("static __always_inline", "__noinline", 1).replacen(
        "static __noinline",
        "__noinline",
        1,
    );
    if new == line { Vec::new() } else { vec![Edit::new(at, new, answers)] }
}

fn submitted_twice(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let edit = submitted(source, at).map(|line| Edit::new(at, format!("{line}{line}"), vec![at]));
    edit.into_iter().collect()
}

fn used_after(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let edit = submitted(source, at).and_then(|line| {
        let pointer = between(line, "bpf_ringbuf_submit(", ",")
            .or_else(|| between(line, "bpf_ringbuf_discard(", ","))?;
        let used = format!("{line} bpf_printk(\"%d\", *(volatile int *){pointer});");
        Some(Edit::new(at, used, vec![at]))
    });
    edit.into_iter().collect()
}

/// Helpers that only programs under the GPL may call, and macros that call these.
const FOR_GPL: &[&str] = &[
    "bpf_printk(",
    "BPF_CORE_READ(",
    "bpf_core_read(",
    "bpf_probe_read",
    "bpf_perf_event_output(",
    "bpf_get_stackid(",
    "bpf_get_current_task(",
    "readable_bio(",
];

fn for_gpl(source: &Source<'_>) -> Vec<usize> {
    let is_for_gpl = |at: &usize| FOR_GPL.iter().any(|helper| source.lines[*at].contains(helper));
    (0..source.lines.len()).filter(is_for_gpl).flat_map(|at| source.statement(at)).collect()
}

fn license(source: &Source<'_>, at: usize, name: Option<&str>) -> Vec<Edit> {
    let answers = for_gpl(source);
    if !source.lines[at].starts_with("char LICENSE[]") || answers.is_empty() {
        return Vec::new();
    }
    let line = name.map_or_else(String::new, |name| format!("char LICENSE[] SEC(\"license\") = \"{name}\";"));
    vec![Edit::new(at, line, answers)]
}

fn other_license(source: &Source<'_>, at: usize) -> Vec<Edit> {
    license(source, at, Some("MIT"))
}

fn no_license(source: &Source<'_>, at: usize) -> Vec<Edit> {
    license(source, at, None)
}

fn returns(source: &Source<'_>, at: usize, value: &str) -> Vec<Edit> {
    let is_checked = source.function(at).is_some_and(|function| function.is_in(&["fentry/", "fexit/"]));
    if !is_checked || !source.lines[at].trim().starts_with("return 0;") {
        return Vec::new();
    }
    // The compiler may make one end of several returns, which then belongs to the program's head.
    let answers = source.function(at).map_or(0..0, |function| function.head..function.open);
    let new = source.lines[at].replacen("return 0;", &format!("return {value};"), 1);
    vec![Edit::new(at, new, answers.chain([at]).collect())]
}

fn returns_one(source: &Source<'_>, at: usize) -> Vec<Edit> {
    returns(source, at, "1")
}

fn returns_anything(source: &Source<'_>, at: usize) -> Vec<Edit> {
    returns(source, at, "bpf_get_prandom_u32()")
}

fn key_by_value(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let key = line.split_once("_elem(&").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once(", &")?;
        rest.split([',', ')']).next()
    });
    let edit = key.filter(|key| !key.contains('>')).map(|key| {
        Edit::new(at, line.replacen(&format!(", &{key}"), &format!(", (void *)(long){key}"), 1), vec![at])
    });
    edit.into_iter().collect()
}

fn other_context(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let is_it = ["bpf_get_stackid(ctx,", "bpf_perf_event_output(ctx,"].iter().any(|call| line.contains(call));
    let new = line.replacen("(ctx,", "((void *)bpf_ktime_get_ns(),", 1);
    if is_it { vec![Edit::new(at, new, source.statement(at))] } else { Vec::new() }
}

/// A size in a call of a helper that fills or reads a buffer, and whether that is on the stack.
fn size(source: &Source<'_>, at: usize) -> Option<(String, bool)> {
    let statement = source.statement(at).iter().map(|at| source.lines[*at]).collect::<String>();
    let is_it = ["bpf_get_current_comm(", "bpf_probe_read", "bpf_core_read(", "_output("];
    let named = between(source.lines[at], "sizeof(", ")")?;
    let is_it = is_it.iter().any(|helper| statement.contains(helper));
    (is_it && !named.starts_with('*')).then(|| (format!("sizeof({named})"), !named.contains("->")))
}

fn size_too_large(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let Some((size, true)) = size(source, at) else { return Vec::new() };
    let larger = |more: &str| {
        let new = source.lines[at].replacen(&size, &format!("{size} + {more}"), 1);
        Edit::new(at, new, source.statement(at))
    };
    vec![larger("512"), larger("1000")]
}

fn size_too_large_for_value(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let Some((size, false)) = size(source, at) else { return Vec::new() };
    let new = source.lines[at].replacen(&size, &format!("{size} + 512"), 1);
    vec![Edit::new(at, new, source.statement(at))]
}

fn smaller_record(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some((left, _)) = line.split_once(" = bpf_ringbuf_reserve(") else { return Vec::new() };
    let (Some(size), Some(function)) = (between(line, "sizeof(", ")"), source.function(at)) else {
        return Vec::new();
    };
    let pointer = last_word(left);
    let mut answers: Vec<_> =
        source.uses(pointer, function).into_iter().flat_map(|at| source.statement(at)).collect();
    answers.extend(passed_on(source, pointer, function));
    vec![Edit::new(at, line.replacen(&format!("sizeof({size})"), "4", 1), answers)]
}

/// The lines in functions that a pointer is passed to.
fn passed_on(source: &Source<'_>, pointer: &str, function: &Function) -> Vec<usize> {
    let inner =
        source.functions.iter().filter(|inner| inner.section.is_empty() && inner.name != function.name);
    let is_passed = |inner: &&Function| {
        (function.open..function.close).any(|at| {
            between(source.lines[at], &format!("{}(", inner.name), ";")
                .is_some_and(|arguments| arguments.contains(pointer))
        })
    };
    inner.filter(is_passed).flat_map(|inner| inner.open..inner.close).collect()
}

fn smaller_value(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let (Some(value), Some(map)) = (between(line, "__type(value, ", ")"), source.map(at)) else {
        return Vec::new();
    };
    let mut answers = Vec::new();
    for function in &source.functions {
        for (pointer, _, of) in source.pointers(function.close - 1) {
            if of == map.name {
                answers
                    .extend(source.uses(pointer, function).into_iter().flat_map(|at| source.statement(at)));
                answers.extend(passed_on(source, pointer, function));
            }
        }
    }
    if answers.is_empty() || value == "u8" {
        return Vec::new();
    }
    vec![Edit::new(at, line.replacen(value, "u8", 1), answers)]
}

fn larger_key(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let (Some(key), Some(map)) = (between(line, "__type(key, ", ")"), source.map(at)) else {
        return Vec::new();
    };
    let answers: Vec<_> = (0..source.lines.len())
        .filter(|at| source.lines[*at].contains(&format!("_elem(&{},", map.name)))
        .collect();
    if !map.kind.ends_with("HASH") || answers.is_empty() {
        return Vec::new();
    }
    vec![Edit::new(at, line.replacen(key, "char[512]", 1), answers)]
}

fn direct_read(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let is_kprobe = source.function(at).is_some_and(|function| function.is_in(KPROBE));
    let Some(arguments) = between(line, "BPF_CORE_READ(", ")").filter(|_| is_kprobe) else {
        return Vec::new();
    };
    let read = arguments.replace(", ", "->");
    vec![Edit::new(at, line.replacen(&format!("BPF_CORE_READ({arguments})"), &read, 1), vec![at])]
}

fn without_value(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let is_declared =
        ["u8 ", "u32 ", "u64 ", "int ", "struct ", "char "].iter().any(|kind| line.trim().starts_with(kind));
    if source.function(at).is_none() || !is_declared {
        return Vec::new();
    }
    let forms = [(" = 0;", ";"), (" = 0,", ","), (" = 1;", ";"), (" = {};", ";"), (" = { ", "")];
    let edits = forms.iter().filter_map(|(value, without)| {
        let (left, right) = line.split_once(value)?;
        let name = last_word(left.split('[').next()?);
        let mut answers = source.later(at + 1, &format!("&{name}"));
        answers.extend(source.later(at + 1, &format!(", {name}, sizeof({name})")));
        let right = if without.is_empty() { ";" } else { right };
        (!answers.is_empty()).then(|| Edit::new(at, format!("{left}{without}{right}"), answers))
    });
    edits.take(1).collect()
}

fn kprobe_becomes_fentry(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let function = source.functions.iter().find(|function| function.head == at);
    let Some(function) = function.filter(|function| !function.parameters.is_empty()) else {
        return Vec::new();
    };
    if !line.starts_with("SEC(\"kprobe/") {
        return Vec::new();
    }
    // The macro reads the registers in the head.
    vec![Edit::new(at, line.replacen("kprobe/", "fentry/", 1), (function.head..=function.open).collect())]
}

fn no_such_function(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let is_typed = TYPED.iter().any(|begin| line.starts_with(&format!("SEC(\"{begin}")));
    if is_typed { vec![Edit::new(at, line.replacen("\")", "_now\")", 1), Vec::new())] } else { Vec::new() }
}

fn more_arguments(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let function = source.functions.iter().find(|function| function.open == at + 1 && function.is_loaded);
    let Some(function) = function.filter(|function| function.is_in(&["fentry/", "tp_btf/"])) else {
        return Vec::new();
    };
    let line = source.lines[at];
    let Some((left, _)) = line.rsplit_once(')').filter(|_| line.contains("BPF_PROG(")) else {
        return Vec::new();
    };
    let head = format!("{left}, u64 a, u64 b, u64 c, u64 d)");
    let used = "{ bpf_printk(\"%llu\", d);".to_owned();
    let answers = (function.head..=function.open).collect();
    vec![Edit { changed: vec![(at, head), (at + 1, used)], added: "", answers }]
}

fn without_entries(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let is_it = source.map(at).is_some() && source.lines[at].contains("__uint(max_entries, ");
    if is_it { vec![Edit::new(at, String::new(), Vec::new())] } else { Vec::new() }
}

fn map_too_large(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some(value) = between(line, "__type(value, ", ")") else { return Vec::new() };
    let is_it = source.map(at).is_some_and(|map| ["HASH", "ARRAY", "PERCPU_ARRAY"].contains(&&*map.kind));
    let edit = Edit::new(at, line.replacen(value, "char[1 << 30]", 1), Vec::new());
    if is_it { vec![edit] } else { Vec::new() }
}

fn static_map(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let is_it = source.lines[at] == "struct {" && source.map(at + 1).is_some();
    if is_it { vec![Edit::new(at, "static struct {".to_owned(), Vec::new())] } else { Vec::new() }
}

fn other_map(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let class = |map: &Map| match map.kind.as_str() {
        "HASH" | "LRU_HASH" | "ARRAY" | "PERCPU_ARRAY" => "plain".to_owned(),
        kind => kind.to_owned(),
    };
    let named = |map: &&Map| {
        line.contains(&format!("(&{},", map.name)) || line.contains(&format!("(ctx, &{},", map.name))
    };
    let Some(map) = source.maps.iter().find(named).filter(|_| source.function(at).is_some()) else {
        return Vec::new();
    };
    let other = source.maps.iter().find(|other| class(other) != class(map));
    let edit = other.map(|other| {
        let new = line.replacen(&format!("&{},", map.name), &format!("(void *)&{},", other.name), 1);
        Edit::new(at, new, source.statement(at))
    });
    edit.into_iter().collect()
}

fn field(source: &Source<'_>, at: usize, exists: bool) -> Vec<Edit> {
    let line = source.lines[at];
    let Some(named) = between(line, "bpf_core_field_exists(", ")") else { return Vec::new() };
    let new = line.replacen(&format!("bpf_core_field_exists({named})"), if exists { "1" } else { "0" }, 1);
    // The line itself has both sides of a question mark.
    let answers = if exists { vec![at, at + 1, at + 2] } else { vec![at, at + 2, at + 3, at + 4, at + 5] };
    vec![Edit::new(at, new, answers)]
}

fn field_always(source: &Source<'_>, at: usize) -> Vec<Edit> {
    field(source, at, true)
}

fn field_never(source: &Source<'_>, at: usize) -> Vec<Edit> {
    field(source, at, false)
}

fn lock_in_value(source: &Source<'_>, at: usize) -> Vec<Edit> {
    let line = source.lines[at];
    let Some(name) = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) else {
        return Vec::new();
    };
    let is_value = |map: &Map| {
        ["HASH", "ARRAY"].contains(&&*map.kind)
            && source.lines[map.lines.clone()]
                .iter()
                .any(|line| line.contains(&format!("__type(value, struct {name})")))
    };
    let is_elsewhere =
        source.lines.iter().filter(|line| line.contains(&format!("__type(value, struct {name})"))).count()
            > 1;
    if is_elsewhere || !source.maps.iter().any(is_value) {
        return Vec::new();
    }
    vec![Edit::new(at, format!("{line} struct bpf_spin_lock lock;"), Vec::new())]
}

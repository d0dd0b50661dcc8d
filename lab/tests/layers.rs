//! Checks which folder of `lab/src` imports which, and that files don't import each other in a cycle, in `common`
//! either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders, from bottom to top, each with the folders that it may import.
const LAYERS: [(&str, &[&str]); 9] = [
    ("shared", &[]),
    ("host", &["shared"]),
    ("workbook", &["host", "shared"]),
    ("guest", &["shared", "workbook"]),
    ("machine", &["host", "shared", "workbook"]),
    ("kit", &["host", "machine", "shared", "workbook"]),
    ("learn", &["host", "machine", "shared", "workbook"]),
    ("publish", &["kit", "learn", "machine", "shared", "workbook"]),
    ("measure", &["host", "machine", "publish", "shared", "workbook"]),
];

/// Files by their module, such as `machine::vm`, each with the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports of the files below a folder from their own crate, except in tests.
fn imports(src: &Path) -> Imports {
    let (mut files, mut folders) = (Vec::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("bin") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("lib.rs") {
                files.push(path);
            }
        }
    }
    let modules: BTreeSet<_> = files.iter().map(|file| module(src, file)).collect();
    let of_file = |file: &PathBuf| {
        let used = paths(&fs::read_to_string(file).unwrap());
        // Items without their own file, such as the error type, are in the crate's root.
        (module(src, file), used.iter().filter_map(|path| owner(path, &modules)).collect())
    };
    files.iter().map(of_file).collect()
}

/// The module of a file, such as `machine::vm`; a `mod.rs` is the module of its folder.
fn module(src: &Path, file: &Path) -> String {
    let path = file.strip_prefix(src).unwrap().with_extension("");
    let path = if path.ends_with("mod") { path.parent().unwrap() } else { &path };
    path.to_str().unwrap().replace('/', "::")
}

/// The module that a path leads to: the longest one that is a prefix of the path.
fn owner(path: &[String], modules: &BTreeSet<String>) -> Option<String> {
    (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|begin| modules.contains(begin))
}

/// The paths after `crate::` in a source, without comments and tests. Groups in braces are expanded.
fn paths(source: &str) -> Vec<Vec<String>> {
    let (code, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            tree(&mut code[at + "crate::".len()..].chars().peekable(), &mut Vec::new(), &mut found);
        }
    }
    assert!(!code.contains("super::"), "a path that begins with crate:: is easier to follow");
    found
}

/// Reads one path, or the paths in braces, that follow `begin`.
fn tree(
    code: &mut std::iter::Peekable<std::str::Chars<'_>>,
    begin: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    let depth = begin.len();
    loop {
        let mut word = String::new();
        while let Some(letter) = code.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(letter);
        }
        if !word.is_empty() {
            begin.push(word);
        }
        if code.next_if_eq(&'{').is_some() {
            while !matches!(code.peek(), Some('}') | None) {
                while code.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
                tree(code, begin, found);
                while code.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
            }
            code.next();
            break;
        }
        if code.next_if_eq(&':').is_none() || code.next_if_eq(&':').is_none() {
            found.push(begin.clone());
            break;
        }
    }
    begin.truncate(depth);
}

/// Modules that import each other in a cycle, if there are any.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut left: BTreeSet<_> = imports.keys().collect();
    loop {
        let before = left.clone();
        // A module that imports none of the others, or that none of the others imports, is not in a cycle.
        let imports = |from: &String, to: &String| from != to && imports[from].contains(to);
        left.retain(|name| before.iter().any(|other| imports(name, other)));
        left.retain(|name| before.iter().any(|other| imports(other, name)));
        if left == before {
            return (!left.is_empty()).then(|| left.into_iter().cloned().collect());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn each_folder_imports_only_what_is_below_it() {
    let src = root().join("lab/src");
    let imports = imports(&src);
    let folder = |module: &str| module.split("::").next().unwrap().to_owned();
    for (module, imported) in &imports {
        let from = folder(module);
        let (_, allowed) =
            LAYERS.iter().find(|(name, _)| *name == from).expect("each folder is in the table");
        for other in imported.iter().map(|other| folder(other)).filter(|other| *other != from) {
            assert!(allowed.contains(&&*other), "{module} may not import {other}: it may import {allowed:?}");
        }
    }
    for (nth, (name, allowed)) in LAYERS.into_iter().enumerate() {
        let is_below = |other: &&str| LAYERS[..nth].iter().any(|(below, _)| below == other);
        assert!(allowed.iter().all(is_below), "{name} may import only what is above it in the table");
        // The comments in each `mod.rs` must match these rules.
        let text = fs::read_to_string(src.join(name).join("mod.rs")).unwrap();
        let names: Vec<_> = allowed.iter().map(|other| format!("`{other}`")).collect();
        let names = if names.is_empty() { "no other folder".to_owned() } else { names.join(", ") };
        assert_eq!(text.lines().nth(1), Some(&*format!("//! May import {names}.")), "{name}/mod.rs");
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for src in ["lab/src", "common/src"] {
        let imports = imports(&root().join(src));
        assert!(imports.values().flatten().count() > 20, "the imports of {src} were found");
        assert_eq!(circle(&imports), None, "{src}");
    }
}

#[test]
fn what_is_forbidden_is_found() {
    let paths = paths("use crate::host::{self, tools::{A, B}};\n// crate::no\nf(crate::guest::x::y());\n");
    let paths: Vec<_> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["host::self", "host::tools::A", "host::tools::B", "guest::x::y"]);
    let imports = |pairs: &[(&str, &str)]| {
        let pair = |(from, to): &(&str, &str)| ((*from).to_owned(), [(*to).to_owned()].into());
        pairs.iter().map(pair).collect::<Imports>()
    };
    assert_eq!(circle(&imports(&[("a", "b"), ("b", "c"), ("c", "c")])), None);
    assert_eq!(circle(&imports(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap(), ["b", "c"]);
}

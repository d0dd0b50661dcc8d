//! Whether the costs that a page states are still those of its programs. What measures a cost writes a checksum of the
//! BPF sources into the page's block, and a test compares it with that of today's sources.
//!
//! The checksum is one of sources, since clang 14 and clang 22 make different instructions of them. It leaves out
//! comments and layout. Each source counts with the headers of ours that it includes.

use std::fs;
use std::path::Path;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;

use crate::publish::blocks::checksum;

/// The programs whose READMEs have a block `peers`, and those whose costs it states. That of stage 08 has counts, which
/// the kernel tests prove.
pub const STATED: [(&str, &[&str]); 4] = [
    ("08", &[]),
    ("biolatency", &["biolatency", "bitesize"]),
    ("biowhere", &["biowhere"]),
    ("ctracer", &["ctracer"]),
];

/// The line of a block that says of which sources its costs are; empty if it states none.
pub fn line(workbook: &Workbook, program: &str) -> Result<String> {
    let (_, programs) = STATED
        .iter()
        .find(|(page, _)| *page == program)
        .ok_or_else(|| Error::new(format!("no costs are stated for {program}")))?;
    let mut code = String::new();
    for program in *programs {
        let [source, _] = workbook.catalog.program(program)?.sources()?;
        add(&source, &workbook.root.join("common/build/include"), &mut code)?;
    }
    Ok(if programs.is_empty() { String::new() } else { format!("<!-- sources {} -->\n", checksum(&code)) })
}

/// Adds the code of a source and of the headers from `include` in it.
fn add(source: &Path, include: &Path, code: &mut String) -> Result<()> {
    let text = fs::read_to_string(source).or_cause(format!("cannot read {}", source.display()))?;
    let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    for header in included.map(|name| include.join(name)).filter(|header| header.exists()) {
        add(&header, include, code)?;
    }
    *code += &without_comments(&text);
    Ok(())
}

/// The words of a source.
fn without_comments(text: &str) -> String {
    let after = |part: &str| part.split_once("*/").map_or(String::new(), |(_, code)| code.to_owned());
    let mut parts = text.split("/*");
    let code = parts.next().unwrap_or_default().to_owned() + &parts.map(after).collect::<String>();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::blocks::Markers;

    #[test]
    fn the_stated_costs_are_those_of_the_programs() {
        let workbook = Workbook::read().unwrap();
        for (program, _) in STATED {
            let page = workbook.catalog.program(program).unwrap().folder.join("README.md");
            let block = Markers::find(&page, "peers").unwrap();
            assert!(
                block.text().ends_with(&line(&workbook, program).unwrap()),
                "{} states costs of programs that have changed since. Measure again: cargo upkeep peers {program}",
                page.display()
            );
        }
    }

    #[test]
    fn a_comment_costs_nothing() {
        let code = without_comments("// GPL\nint a; /* one\n * two */ int\tb; /* three */\n");
        assert_eq!(code, "int a; int b;");
        assert_ne!(code, without_comments("int a; long b;"));
    }
}

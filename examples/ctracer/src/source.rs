//! If the kernel's debug info is on this machine, finds the file and line of each function, as in the code view of the
//! tutorial.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use blazesym::inspect::{self, Inspector};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use common::{OrCause, Result};
use path_clean::clean;

/// The running kernel's image with debug info. We look where distributions and a kernel's own build put it.
pub fn image(release: &str) -> Option<PathBuf> {
    let known = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/lib/modules/{release}/build/vmlinux"),
        format!("/boot/vmlinux-{release}"),
    ];
    known.into_iter().map(PathBuf::from).find(|path| path.is_file())
}

/// The file and line of these functions, such as `block/blk-core.c:905`, by name. Leaves out functions without debug
/// info.
pub fn lines(image: &Path, names: &[&str]) -> Result<BTreeMap<String, String>> {
    let cannot = || format!("cannot read the debug info of {}", image.display());
    let inspector = Inspector::new();
    let elf = inspect::source::Source::Elf(inspect::source::Elf::new(image));
    let found = inspector.lookup(&elf, names).or_cause(cannot())?;
    let (names, addresses): (Vec<_>, Vec<_>) =
        names.iter().zip(&found).filter_map(|(name, found)| Some((*name, found.first()?.addr))).unzip();
    let symbolizer = Symbolizer::new();
    let symbols = symbolizer.symbolize(&Source::Elf(Elf::new(image)), Input::VirtOffset(&addresses));
    let symbols = symbols.or_cause(cannot())?;
    let places: Vec<_> = names
        .iter()
        .zip(&symbols)
        .filter_map(|(name, symbol)| {
            let code = symbol.as_sym()?.code_info.as_deref()?;
            Some(((*name).to_owned(), clean(code.to_path()), code.line?))
        })
        .collect();
    let top = common_folder(places.iter().map(|(_, path, _)| path.as_path()));
    let shown = |path: &Path| path.strip_prefix(&top).unwrap_or(path).display().to_string();
    Ok(places.iter().map(|(name, path, line)| (name.clone(), format!("{}:{line}", shown(path)))).collect())
}

/// The folder that contains all of these files. It is the top of the source tree, because they are in several of its
/// folders.
fn common_folder<'a>(mut paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let first = paths.next().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    paths.fold(first, |top, path| {
        let same = top.components().zip(path.components()).take_while(|(one, other)| one == other);
        same.map(|(component, _)| component).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_function_has_the_file_and_line_that_the_compiler_noted() {
        let tree = tempfile::tempdir().unwrap();
        for (folder, text) in [
            ("block", "\n\nint submit(int bio)\n{\n\treturn bio + 1;\n}\n"),
            ("fs", "int ext4(void)\n{\n\treturn 4;\n}\n"),
        ] {
            fs::create_dir(tree.path().join(folder)).unwrap();
            fs::write(tree.path().join(folder).join("code.c"), text).unwrap();
        }
        let mut clang = Command::new("clang");
        clang.current_dir(tree.path()).args([
            "-g",
            "-nostdlib",
            "-shared",
            "-o",
            "image",
            "block/code.c",
            "fs/code.c",
        ]);
        assert!(clang.status().unwrap().success());
        let found = lines(&tree.path().join("image"), &["submit", "ext4", "no_such_function"]).unwrap();
        let found: Vec<_> = found.iter().map(|(name, place)| (name.as_str(), place.as_str())).collect();
        assert_eq!(found, [("ext4", "fs/code.c:2"), ("submit", "block/code.c:4")]);
    }

    #[test]
    fn an_image_without_debug_info_has_no_lines_and_what_is_no_image_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("vmlinux");
        fs::write(&text, "no image").unwrap();
        assert!(lines(&text, &["submit"]).unwrap_err().to_string().contains("cannot read the debug info of"));
        assert_eq!(image("0.0.0-of-no-machine"), None);
    }
}

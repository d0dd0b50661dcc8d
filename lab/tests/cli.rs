//! What people see: help, tables, errors. Needs no kernel.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use machine::kernels::Series;
use machine::workbook::{Program, Workbook, copies, diff};

/// Runs a command and returns its exit status, stdout and stderr as one text.
fn run(command: &mut Command) -> String {
    let output = command.env("COLUMNS", "120").output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let parts = [("", stdout), ("stderr:\n", stderr)];
    let text: String = parts
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}{text}"))
        .collect();
    // A new kernel, stage or example changes no snapshot.
    let text = text.replace(&Series::names(), "[kernels]");
    let workbook = Workbook::read().unwrap();
    let (stages, all) = (workbook.catalog.stages.len(), workbook.catalog.programs());
    let all: Vec<_> = all.map(Program::name).collect();
    let text = text.replace(&all.join(", "), "[programs]").replace(&all[..stages].join(", "), "[stages]");
    format!("{text}status: {}", output.status.code().unwrap())
}

/// The lines of a table that begin with one of these, without its spaces: a new stage or example changes neither.
fn some(table: &str, begins: &[&str]) -> String {
    let lines = table.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let cells = |line: &str| {
        line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>().join("  ")
    };
    lines.map(cells).collect::<Vec<_>>().join("\n")
}

fn lab(arguments: &[&str]) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments))
}

/// On a machine without any kernel to boot, and where nobody answers.
fn lab_without_kernels(arguments: &[&str]) -> String {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    let proxies = ["http_proxy", "https_proxy"].map(|name| (name, "http://127.0.0.1:9"));
    let command = command.args(arguments).envs(proxies).env("XDG_CACHE_HOME", nowhere.path());
    run(command).replace(nowhere.path().to_str().unwrap(), "[cache]")
}

#[test]
fn help() {
    insta::assert_snapshot!(lab(&["--help"]));
    for command in ["run", "exercise", "ask", "clinic", "mystery", "diff", "kernels"] {
        let help = lab(&[command, "--help"]);
        assert!(
            help.contains(&format!("Usage: cargo lab {command}")) && help.ends_with("status: 0"),
            "{help}"
        );
    }
}

#[test]
fn what_does_not_exist_is_an_error() {
    for (name, arguments) in [
        ("unknown_stage", &["run", "42"][..]),
        ("unknown_example", &["run", "bitehits"]),
        ("unknown_kernel", &["run", "01", "--kernel", "4.19"]),
        ("unknown_workload", &["run", "01", "--io", "swim"]),
        ("unknown_exercise", &["exercise", "start", "03.9"]),
        ("unknown_stages_exercise", &["exercise", "start", "42.1"]),
        ("unknown_diff", &["diff", "01", "42"]),
        ("unknown_series", &["kernels", "--fetch", "4.19"]),
        ("unknown_case", &["clinic", "show", "99"]),
        ("mystery_unknown", &["mystery", "start", "99"]),
    ] {
        insta::assert_snapshot!(name, lab(arguments));
    }
}

#[test]
fn a_case_of_the_clinic() {
    let mine = tempfile::tempdir().unwrap();
    let lab = |arguments: &[&str]| {
        let text = run(Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).env("LAB_MINE", mine.path()));
        text.replace(&mine.path().display().to_string(), "mine")
    };
    insta::assert_snapshot!("clinic_check_before_start", lab(&["clinic", "check", "01"]));
    insta::assert_snapshot!("clinic_start", lab(&["clinic", "start", "01"]));
    assert!(mine.path().join("clinic-01/latency.bpf.c").exists());
    for (name, arguments) in [
        ("start_twice", "start 1"),
        ("list", "list"),
        ("show", "show 01 --kernel 5.10"),
        ("hint", "hint 01"),
        ("solution", "solution 01"),
        ("peek", "solution 01 --peek"),
        ("accepted", "show 24 --kernel 7.2"),
    ] {
        let arguments: Vec<_> = ["clinic"].into_iter().chain(arguments.split(' ')).collect();
        insta::assert_snapshot!(format!("clinic_{name}"), lab(&arguments));
    }
}

#[test]
fn a_missing_kernel_is_an_error_if_it_cannot_be_fetched() {
    let lab = lab_without_kernels;
    insta::assert_snapshot!("missing_kernel_offline", lab(&["run", "01", "--offline"]));
    // apt tries several times, so it takes a while. All commands fetch by the same function.
    let text = lab(&["kernels", "--fetch", "5.10", "--mirror", "http://127.0.0.1:9/debian"]);
    assert!(text.contains("Fetching kernel 5.10: "), "{text}");
    assert!(text.contains("Error: the kernel 5.10 could not be downloaded\n"), "{text}");
    assert!(
        text.contains("127.0.0.1") && text.contains("fix:      try again when the network works"),
        "{text}"
    );
}

#[test]
fn each_program_has_help_without_a_kernel() {
    let lab = lab_without_kernels;
    let workbook = Workbook::read().unwrap();
    workbook.build().unwrap();
    for program in workbook.catalog.programs() {
        let (name, binary) = (program.name(), program.binary());
        let own = |option: &str| run(Command::new(workbook.binaries().join(&binary)).arg(option));
        assert_eq!(own("--version"), format!("{binary} {}\nstatus: 0", env!("CARGO_PKG_VERSION")));
        let help = own("--help");
        assert!(help.contains(&format!("Usage: {binary}")) && help.ends_with("status: 0"), "{help}");
        // The driver starts all programs in the same way.
        if ["03", "bitehist"].contains(&&*name) {
            assert_eq!(lab(&["run", &name, "--", "--help"]), help);
            let refused = lab(&["run", &name, "--", "--no-such-option"]);
            assert!(refused.contains("unexpected argument") && refused.ends_with("status: 2"), "{refused}");
        }
    }
}

/// What happens on a full disk.
#[test]
fn what_cant_be_written_is_an_error() {
    for arguments in [&["list"][..], &["doctor"], &["diff", "03"], &["exercise", "status"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        let output = lab.args(arguments).stdout(full).output().unwrap();
        let seen = String::from_utf8(output.stderr).unwrap();
        assert!(seen.contains("No space left on device") && !seen.contains("panicked"), "{seen}");
        assert_eq!(output.status.code(), Some(1), "{seen}");
    }
}

#[test]
fn without_clang_the_build_says_what_to_install() {
    let workbook = Workbook::read().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    let package = workbook.catalog.stages[0].package();
    cargo.current_dir(&workbook.root).args(["check", "--quiet", "--package", package]);
    let text = run(cargo.env("CLANG", "clang-that-is-not-here"));
    let error =
        format!("error: {package}@{}: clang, the compiler for BPF, was not found", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&error), "{text}");
    assert!(text.contains("install it: make setup (Debian, Ubuntu: apt install clang)"), "{text}");
    assert!(!text.contains("panicked") && text.ends_with("status: 101"), "{text}");
}

/// The generated blocks match their sources.
#[test]
fn the_generated_blocks_are_up_to_date() {
    let said = upkeep::publish::sync::check(&Workbook::read().unwrap());
    assert_eq!(said.unwrap(), "All generated blocks are up to date.\n");
}

#[test]
fn the_difference_between_two_stages() {
    insta::assert_snapshot!("diff_03", lab(&["diff", "03"]));
    insta::assert_snapshot!("diff_first", lab(&["diff", "01"]));
    let full = lab(&["diff", "03", "--full"]);
    assert!(!full.contains("as before") && full.contains("include!("), "{full}");
}

/// This works from any stage to any other.
#[test]
fn a_patch_makes_one_stage_of_another() {
    let workbook = Workbook::read().unwrap();
    let stages = &workbook.catalog.stages;
    for (old, new) in stages.iter().flat_map(|old| stages.iter().map(move |new| (old, new))) {
        let copy = tempfile::tempdir().unwrap();
        copies::write(copy.path(), &copies::files(old).unwrap()).unwrap();
        let patch = diff::patch(&copies::files(old).unwrap(), &copies::files(new).unwrap());
        let mut command = Command::new("patch");
        command.args(["--strip=1", "--quiet", "--directory"]).arg(copy.path()).stdin(Stdio::piped());
        let mut child = command.spawn().expect("patch is there: lab/setup test");
        child.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{} to {}", old.number, new.number);
        let made = Program { folder: copy.path().to_owned(), ..new.clone() };
        assert_eq!(copies::files(&made).unwrap(), copies::files(new).unwrap());
    }
    let printed = lab(&["diff", "01", "08", "--patch"]);
    let [first, eighth] = [0, 7].map(|nth: usize| copies::files(&stages[nth]).unwrap());
    let patch = diff::patch(&first, &eighth);
    assert_eq!(printed, format!("{patch}status: 0"));
}

/// Goes through an exercise, from no working copy to the solution.
#[test]
fn an_exercise_from_its_start() {
    let workbook = Workbook::read().unwrap();
    let id = "05.2";
    // Our own folder, because somebody may be using the other one.
    let mine = workbook.target.join("test-mine");
    let _ = fs::remove_dir_all(&mine);
    let lab = |arguments: &[&str]| {
        let text = run(Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).env("LAB_MINE", &mine));
        text.replace(&workbook.root.display().to_string(), "[workbook]").replace("target/test-mine", "mine")
    };

    // One after the other, and then all of them.
    for nth in 1..=4 {
        insta::assert_snapshot!(format!("exercise_hint_{nth}"), lab(&["exercise", "hint", id]));
    }
    for (name, arguments) in [
        ("not_started", &["exercise", "check", id][..]),
        ("diff_not_started", &["diff", "mine", id]),
        ("no_solution_yet", &["exercise", "solution", id]),
        ("solution", &["exercise", "solution", id, "--peek"]),
        ("start", &["exercise", "start", id]),
        ("start_twice", &["exercise", "start", id]),
    ] {
        insta::assert_snapshot!(format!("exercise_{name}"), lab(arguments));
    }
    let status = some(&lab(&["exercise", "status"]), &["05", "0 of", "status"]);
    insta::with_settings!({ filters => [(r"of \d+ done", "of N done")] }, {
        insta::assert_snapshot!("exercise_status", status);
    });
    insta::assert_snapshot!("exercise_diff_mine", lab(&["diff", "mine", id, "--peek"]));
    insta::assert_snapshot!("exercise_diff_unchanged", lab(&["exercise", "diff", id]));

    let source = mine.join(id).join("src/bpf/bio_trace.bpf.c");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("u64 start;", "u64 start")).unwrap();
    let broken = lab(&["exercise", "check", id]);
    assert!(broken.contains("error: expected ';' at end of declaration list"), "{broken}");
    let end = &broken[broken.find("Error: your 05.2").expect("our own words come last")..];
    insta::assert_snapshot!("exercise_does_not_compile", end);
    // A file that is added, in the middle of their order.
    fs::write(mine.join(id).join("src/bpf/added.h"), "/* added */\n").unwrap();
    insta::assert_snapshot!("exercise_diff", lab(&["exercise", "diff", id]));
    fs::remove_file(mine.join(id).join("src/bpf/added.h")).unwrap();
    // An incomplete copy does not keep others from being built.
    fs::create_dir(mine.join("notes")).unwrap();
    fs::write(&source, text).unwrap();
    let text = lab(&["exercise", "start", id, "--again"]);
    assert!(text.ends_with("status: 0"), "{text}");
}

/// The commands in the READMEs exist.
#[test]
fn what_the_readmes_say_to_type_can_be_typed() {
    let workbook = Workbook::read().unwrap();
    let makefile = fs::read_to_string(workbook.root.join("Makefile")).unwrap();
    let mut doors = workbook.cargo_build();
    let doors = doors.args(["--quiet", "--package", "class", "--package", "upkeep"]).status();
    assert!(doors.unwrap().success());
    let [help, of_class, of_upkeep] = ["lab", "class", "upkeep"]
        .map(|name| run(Command::new(workbook.binaries().join(name)).arg("--help")));
    let programs = workbook.catalog.programs().map(|program| program.folder.join("README.md"));
    let chapters = fs::read_dir(workbook.root.join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let chapters = chapters.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let tops = ["README.md", "CONTRIBUTING.md"].map(|name| workbook.root.join(name));
    for readme in tops.into_iter().chain(programs).chain(chapters) {
        let text = fs::read_to_string(&readme).unwrap();
        let tools = [
            ("make ", &makefile),
            ("cargo lab ", &help),
            ("cargo class ", &of_class),
            ("cargo upkeep ", &of_upkeep),
        ];
        for (tool, known) in tools {
            // In a code block or between backticks.
            for line in text
                .lines()
                .flat_map(|line| line.split('`'))
                .filter_map(|code| code.trim_start().strip_prefix(tool))
            {
                let is_in_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                let word = line.split(|c: char| !is_in_word(c)).next().unwrap();
                let exists = known.contains(&format!("\n{word}:")) || known.contains(&format!("\n  {word} "));
                assert!(exists, "{}: there is no {tool}{word}", readme.display());
            }
        }
    }
}

/// Sticks are often mounted under such names.
#[test]
fn the_setup_refuses_a_folder_in_which_nothing_can_be_built() {
    let root = Workbook::read().unwrap().root;
    let place = tempfile::tempdir().unwrap();
    let checkout = place.path().join("USB stick");
    fs::create_dir_all(checkout.join("lab")).unwrap();
    for file in ["Cargo.toml", "lab/setup"] {
        fs::copy(root.join(file), checkout.join(file)).unwrap();
    }
    let setup = |target: &str| {
        // Not started itself: while it was written, another thread's child may have got it, too ("Text file busy").
        let mut setup = Command::new("sh");
        run(setup.arg(checkout.join("lab/setup")).arg("build").env("CARGO_TARGET_DIR", target))
    };
    for target in ["", "out", "/tmp/a b"] {
        let text = setup(target);
        assert!(text.contains("with a blank in") && text.contains("CARGO_TARGET_DIR="), "{text}");
        assert!(text.ends_with("status: 1"), "{text}");
    }
    let text = setup("/tmp/a$b");
    assert!(text.contains("with $ in its name") && text.ends_with("status: 1"), "{text}");
    assert_eq!(setup("/tmp/out-1.0_x+y/å日本"), "status: 0");
}

/// Where there is no apt.
#[test]
fn the_setup_names_the_packages_of_other_systems() {
    let root = Workbook::read().unwrap().root;
    let (programs, release) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let kept = "cargo rustc sh sed sort head cut tr cat stat dirname uname id grep";
    for name in kept.split(' ') {
        let program = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(name))
            .find(|file| file.exists());
        std::os::unix::fs::symlink(program.unwrap(), programs.path().join(name)).unwrap();
    }
    for (system, fix) in [
        ("ID=fedora\n", "fix:      sudo dnf install gcc make pkgconf-pkg-config "),
        ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", " qemu-system-x86-core busybox "),
        ("ID=arch\n", "fix:      sudo pacman -S --needed gcc make pkgconf "),
        ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", " clang qemu-x86 busybox-static "),
        ("ID=alpine\n", "fix:      sudo apk add gcc musl-dev make "),
        ("ID=nixos\n", "fix:      nix-shell -p gcc gnumake pkg-config llvmPackages.clang-unwrapped qemu "),
        ("ID=void\n", "fix:      install them with your system's package manager"),
    ] {
        fs::write(release.path(), system).unwrap();
        let mut setup = Command::new("sh");
        setup.arg(root.join("lab/setup")).env("PATH", programs.path()).env("OS_RELEASE", release.path());
        let text = run(setup.env("HOME", std::env::var_os("HOME").unwrap()));
        // An arm64 machine wants another emulator.
        assert!(
            text.replace("qemu-arm", "qemu-x86").replace("aarch64-core", "x86-core").contains(fix),
            "{system}: {text}"
        );
        assert!(text.ends_with("status: 1"), "{text}");
    }
}

/// The sources of a folder and of those below it, without their tests.
fn sources(folder: &Path, is_source: fn(&Path) -> bool) -> String {
    let (mut text, mut folders) = (String::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if is_source(&path) {
                let source = fs::read_to_string(path).unwrap();
                text += source.split("#[cfg(test)]").next().unwrap();
            }
        }
    }
    // A long string is split in the source.
    text.split("\\\n").map(str::trim_start).collect()
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "rs")
}

/// The errors in the first column of the book's tables, except for those of other programs.
fn explained(root: &Path) -> Vec<String> {
    let chapter = fs::read_to_string(root.join("docs/src/troubleshooting.md")).unwrap();
    let (ours, _) = chapter.split_once("## What others say").unwrap();
    let cells = ours.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').step_by(2)).map(str::to_owned).collect()
}

/// The parts of an error that are the same in each case.
fn fixed(text: &str) -> impl Iterator<Item = &str> {
    text.split("...").map(|part| part.trim_matches([' ', ':'])).filter(|part| part.len() > 2)
}

/// Every error that the book explains is in the sources.
#[test]
fn the_book_explains_errors_in_their_own_words() {
    let root = Workbook::read().unwrap().root;
    let folders = ["blkbook", "common", "lab"].map(|folder| sources(&root.join(folder), is_rust));
    let scripts =
        fs::read_to_string(root.join("lab/setup")).unwrap() + &sources(&root.join("lab/class/kit"), |_| true);
    let sources = folders.concat() + &scripts;
    let explained = explained(&root);
    for text in &explained {
        for part in fixed(text) {
            assert!(sources.contains(part), "nobody says {part:?}, of {text:?}");
        }
    }
    assert!(explained.len() > 60, "{}", explained.len());
}

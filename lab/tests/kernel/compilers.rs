//! Learners have many compilers. Each of them must compile every program, and every kernel must load the result. Part of
//! `make compilers-test`, which names the compilers in `LAB_COMPILERS`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use common::preflight;
use common::{Error, OrCause, Result, libbpf_log};
use lab::{clinic, exercise};
use libbpf_rs::ObjectBuilder;
use libtest_mimic::{Failed, Trial};
use machine::vm::{Machine, Vm};
use machine::workbook::{Workbook, copies};
use nix::fcntl::{Flock, FlockArg};

use crate::clinic::{For, add_cure};
use crate::{BOOT_LIMIT, Case, Fleet, KERNELS, cases, check, failed};

pub const CASES: &[Case] = cases![every_compilers_programs_load];

/// Where a guest has the objects, and what their names begin with.
const OBJECTS: &str = "/bin/compiled-by-";

type Lock = Arc<Flock<fs::File>>;

/// The objects of all programs by all compilers, and a lock on their folder, because another run would replace them.
static ALL: LazyLock<Result<(Vec<For<PathBuf>>, Lock)>> = LazyLock::new(|| {
    let workbook = Workbook::read()?;
    let folder = workbook.state_dir().join("compilers");
    fs::create_dir_all(&folder).or_cause("cannot make a folder")?;
    let lock = fs::File::create(folder.join("lock")).or_cause("cannot make a lock")?;
    let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error);
    let lock = lock.or_cause("cannot lock the objects")?;
    Ok((compiled(&workbook, &folder)?, Arc::new(lock)))
});

/// The compilers, such as `clang-14`.
fn compilers() -> Vec<String> {
    let names = std::env::var("LAB_COMPILERS").unwrap_or_default();
    names.split_whitespace().map(str::to_owned).collect()
}

/// A test for each kernel, if there are compilers to test.
pub fn trials() -> Vec<Trial> {
    if compilers().is_empty() {
        return Vec::new();
    }
    let fleet = Arc::new(Fleet::new(boot));
    let trial = |nth: usize| {
        let (case, fleet) = (CASES[0].0, fleet.clone());
        let name = format!("{}::{case}", KERNELS[nth].name);
        let run = move |name: &str| {
            // What does not compile is the same on all kernels.
            ALL.as_ref().map_err(|error| failed(error.clone()))?;
            fleet.with(nth, name, |guest| check(guest, case).map_err(failed))
        };
        Trial::test(name.clone(), move || -> Result<(), Failed> { run(&name) })
    };
    (0..KERNELS.len()).map(trial).collect()
}

fn boot(kernel: &str) -> Result<Vm> {
    let workbook = Workbook::read()?;
    let mut machine =
        Machine { limit: BOOT_LIMIT, ..Machine::with(&workbook, kernel, workbook.build_tools()?)? };
    let objects = ALL.clone()?.0.into_iter();
    machine
        .binaries
        .extend(objects.filter(|(kernels, _)| kernels.contains(&kernel)).map(|(_, object)| object));
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let name = folder.path().join("kernel-tests");
    fs::copy(crate::ourselves(&workbook)?, &name).or_cause("cannot copy ourselves")?;
    machine.binaries.push(name);
    machine.boot()
}

/// The BPF sources of the stages, the examples, the exercises' starting points and solutions, and the clinic's cases and
/// cures. No kernel loads a case that isn't cured, and some cures are for some kernels only.
fn sources(workbook: &Workbook) -> Result<Vec<For<(String, String)>>> {
    let all: Vec<_> = KERNELS.iter().map(|series| series.name).collect();
    let mut sources = Vec::new();
    let mut add = |name: &str, files: copies::Files| {
        let source = files.into_iter().find(|(path, _)| path.to_string_lossy().ends_with(".bpf.c"));
        sources.extend(source.map(|(_, source)| (all.clone(), (name.to_owned(), source))));
    };
    for program in workbook.catalog.programs() {
        add(&program.binary(), copies::files(program)?);
        for exercise in exercise::of(program)? {
            let name = |what| format!("{}-{what}", exercise.binary());
            add(&name("start"), exercise.starting_point("x")?);
            add(&name("solution"), exercise.solved("x")?);
        }
    }
    for case in clinic::cases(workbook)?.into_iter().chain(clinic::variants(workbook)?) {
        let mut cures = Vec::new();
        for kernel in &all {
            add_cure(&mut cures, kernel, case.cured_for(kernel)?);
        }
        sources.extend(cures.into_iter().map(|(kernels, source)| {
            let name = format!("cure-{}-{}", case.name, kernels[0]);
            (kernels, (name, source))
        }));
        sources.push((Vec::new(), (format!("case-{}", case.name), case.source)));
    }
    Ok(sources)
}

/// Compiles every program with every compiler. Returns the objects to load.
fn compiled(workbook: &Workbook, folder: &Path) -> Result<Vec<For<PathBuf>>> {
    let sources = sources(workbook)?;
    let compilers = compilers();
    let todo = Mutex::new(compilers.iter().flat_map(|compiler| sources.iter().map(move |of| (compiler, of))));
    let (done, wrong) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((compiler, (kernels, (name, source)))) = next else { return Ok(()) };
            let version = Path::new(compiler).file_name().unwrap_or_default().display();
            let folder = folder.join(format!("{version}-{name}"));
            let path = folder.join("program.bpf.c");
            fs::create_dir_all(&folder).and_then(|()| fs::write(&path, source)).or_cause("cannot write")?;
            match common_build::compile_with(compiler, &path, &folder) {
                Ok(object) => {
                    let to = folder.with_file_name(format!("compiled-by-{version}-{name}.bpf.o"));
                    fs::rename(object, &to).or_cause("cannot rename an object")?;
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((kernels.clone(), to));
                }
                Err(error) => wrong
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(format!("{version}, {name}: {error}")),
            }
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        work().and(other.join().unwrap())
    })?;
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !wrong.is_empty() {
        return Err(Error::new("some programs do not compile").evidence(wrong.join("\n")));
    }
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// In the guest: loads each object's programs, except those whose functions this kernel doesn't have.
fn every_compilers_programs_load() {
    let objects = fs::read_dir("/bin").unwrap().flatten().map(|entry| entry.path());
    let mut objects: Vec<_> = objects.filter(|path| path.to_string_lossy().starts_with(OBJECTS)).collect();
    objects.sort();
    assert!(!objects.is_empty());
    libbpf_log::capture(false);
    let mut known = BTreeMap::new();
    let wrong: Vec<_> = objects.iter().filter_map(|object| load(object, &mut known).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), objects.len(), wrong.join("\n"));
    println!("{} objects were loaded", objects.len());
}

/// Loads an object. `known` has the attach points that were looked up already, and whether this kernel has them, because
/// that takes longer than to load a program.
fn load(object: &Path, known: &mut BTreeMap<String, bool>) -> Result<(), String> {
    let bytes = fs::read(object).map_err(|error| error.to_string())?;
    let mut loaded = || -> libbpf_rs::Result<usize> {
        let mut open = ObjectBuilder::default().name("compiled")?.open_memory(&bytes)?;
        let mut count = 0;
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let section = section.trim_start_matches('?');
            // User space chooses the function of the others.
            if ["fentry", "fexit", "fsession"].contains(&section) {
                program.set_attach_target(0, Some("submit_bio".to_owned()))?;
            }
            if let Some(function) = section.strip_prefix("fexit/") {
                let name = preflight::name_here(function).map_err(io::Error::other)?;
                program.set_attach_target(0, Some(name))?;
            }
            let look = || {
                let has = preflight::needs([section.to_owned()]).iter().all(|need| need.check().is_ok());
                has && (!section.starts_with("kprobe.session") || preflight::runs_sessions().unwrap())
            };
            let has_all = *known.entry(section.to_owned()).or_insert_with(look);
            program.set_autoload(has_all);
            count += usize::from(has_all);
        }
        open.load().map(|_| count)
    };
    let name = object.display();
    match loaded() {
        Ok(0) => Err(format!("{name}: this kernel has none of its functions")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{name}: {}\n{}", libbpf_log::explain(&error, &bytes), libbpf_log::take())),
    }
}

//! `vmlinux.h` has the layout of the kernel that it was made from, as a compiler sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{Composite, MemberAttr};
use libbpf_rs::btf::{Btf, BtfType};
use machine::vm::Vm;
use machine::workbook::Workbook;
use upkeep::measure::vmlinux;

/// The offset of each member in bits, and its length if it is a bit field. Members of a nameless struct count as
/// members of the struct around it.
#[derive(Debug, PartialEq)]
struct Layout {
    bytes: usize,
    members: Vec<(String, u32, Option<u8>)>,
}

impl Layout {
    fn of(btf: &Btf<'_>, composite: Composite<'_>) -> Self {
        let mut members = Vec::new();
        Self::add(btf, composite, "", 0, &mut members);
        Self { bytes: composite.size(), members }
    }

    fn add(
        btf: &Btf<'_>,
        composite: Composite<'_>,
        within: &str,
        from: u32,
        members: &mut Vec<(String, u32, Option<u8>)>,
    ) {
        for member in composite.iter() {
            let name = format!("{within}{}", member.name.unwrap_or_default().to_str().unwrap());
            let (offset, bits) = match member.attr {
                MemberAttr::Normal { offset } => (offset, None),
                MemberAttr::BitField { size, offset } => (offset, Some(size)),
            };
            let ty = btf.type_by_id::<BtfType<'_>>(member.ty).unwrap();
            match Composite::try_from(ty) {
                Ok(inner) if ty.name().is_none() => {
                    let within = if name == within { name } else { format!("{name}.") };
                    Self::add(btf, inner, &within, from + offset, members);
                }
                _ => members.push((name, from + offset, bits)),
            }
        }
    }
}

/// The name of a struct or a union, and which of the two it is.
type Name = (bool, String);

/// The structs and unions with these names, or all. A kernel has a few names twice.
fn layouts(btf: &Btf<'_>, names: Option<&BTreeSet<Name>>) -> BTreeMap<Name, Vec<Layout>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()));
    for (name, composite) in types.filter_map(|ty| Some((ty.name()?, Composite::try_from(ty).ok()?))) {
        let name = (composite.is_struct, name.to_str().unwrap().to_owned());
        if names.is_none_or(|names| names.contains(&name)) {
            found.entry(name).or_default().push(Layout::of(btf, composite));
        }
    }
    found
}

/// How a BPF object begins: an ELF file of 64 bits, little-endian, ..., relocatable, for the machine BPF.
const OBJECT: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xf7\0";

/// Copies the BPF objects out of the workbook's binaries, which contain them, and returns the copies.
fn objects(workbook: &Workbook, folder: &Path) -> Result<Vec<PathBuf>> {
    let programs = workbook.catalog.programs().filter(|program| program.tracer().is_none());
    let binaries = programs.map(|program| workbook.binaries().join(program.binary()));
    let copy = |binary: PathBuf| {
        let bytes = fs::read(&binary).or_cause(format!("cannot read {}", binary.display()))?;
        let begin = bytes.windows(OBJECT.len()).position(|window| window == OBJECT).ok_or_else(|| {
            Error::new("a program has no BPF object").evidence(binary.display().to_string())
        })?;
        let object = folder.join(binary.file_name().unwrap_or_default()).with_extension("bpf.o");
        // What follows the object in the binary does no harm.
        fs::write(&object, &bytes[begin..]).or_cause("cannot write an object")?;
        Ok(object)
    };
    binaries.map(copy).collect()
}

/// `guest` must run the kernel that `vmlinux.h` was made from. This does not panic, because other cases use the
/// guest, too.
pub fn is_like_the_kernels(guest: &mut Vm) -> Result<()> {
    let workbook = crate::workbook()?;
    let folder = tempfile::tempdir().or_cause("cannot make a folder")?;
    let kernel = folder.path().join("btf");
    fs::write(&kernel, vmlinux::btf_of(guest)?).or_cause("cannot write the BTF")?;

    let objects = objects(&workbook, folder.path())?.into_iter().map(|object| {
        let found = layouts(&Btf::from_path(&object)?, None);
        Ok((object, found))
    });
    let objects: Vec<_> = objects.collect::<Result<_>>()?;
    let names = objects.iter().flat_map(|(_, found)| found.keys().cloned()).collect();
    let truth = layouts(&Btf::from_path(&kernel)?, Some(&names));
    let mut compared = BTreeSet::new();
    for (object, found) in objects {
        // A program does not declare types with a kernel's name itself, because vmlinux.h has them already.
        for (name, found) in found {
            let Some(truth) = truth.get(&name) else { continue };
            if let Some(found) = found.iter().find(|found| !truth.contains(found)) {
                return Err(Error::new(format!("{} has another layout than in the kernel", name.1))
                    .evidence(format!("{}:\n{found:?}\nthe kernel:\n{truth:?}", object.display()))
                    .fix("make vmlinux"));
            }
            compared.insert(name.1);
        }
    }
    let known = ["bio", "block_device", "kiocb", "request", "trace_event_raw_mm_filemap_op_page_cache"];
    if let Some(name) = known.iter().find(|name| !compared.contains(**name)) {
        return Err(Error::new(format!("no program has {name}")).evidence(format!("{compared:?}")));
    }
    Ok(())
}

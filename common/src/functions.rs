//! Which functions of this kernel take a pointer to a struct, and how a kprobe's program finds it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;

use hashbrown::{HashMap, HashSet};
use libbpf_rs::btf::types::{Func, FuncProto, Int, Ptr, Struct, Union};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize};

use crate::preflight::{Need, kernel_types};
use crate::{OrCause, Result};

/// From a function's address to what the program of its kprobe has in `PT_REGS_IP()`, which is one of these. On x86_64, that
/// is the address after the probe's instruction of one byte. The probe comes after an ENDBR instruction of four bytes if the
/// kernel is built with these. On arm64, it is the probe's own address, and a BTI instruction has the same role as ENDBR.
const FROM_FUNCTION_TO_PROBE: [u64; 2] = if cfg!(target_arch = "aarch64") { [0, 4] } else { [1, 5] };

/// A function that takes a pointer to the struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Which argument the pointer is, counted from 0. `None` if that doesn't identify a register, because an earlier
    /// argument is larger than one; or if several functions have this name.
    pub argument: Option<usize>,
    /// Its address; `None` if it has none, because the compiler inlined it everywhere, or several functions have its name.
    address: Option<u64>,
}

impl Function {
    /// What a kprobe's program at this function may have in `PT_REGS_IP()`.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.address.into_iter().flat_map(|address| FROM_FUNCTION_TO_PROBE.map(|offset| address + offset))
    }

    /// Its name as a C string that fills N bytes.
    pub fn text<const N: usize>(&self) -> [u8; N] {
        let mut text = [0; N];
        text.iter_mut().take(N - 1).zip(self.name.bytes()).for_each(|(to, from)| *to = from);
        text
    }
}

/// The functions that take a pointer to `struct NAME`, by the kernel's types, in the order of their names. If one takes
/// several, its first counts. Functions of modules are not among them.
pub fn taking(name: &str) -> Result<Vec<Function>> {
    Need::Btf.check()?;
    let btf = kernel_types()?;
    let symbols = fs::read_to_string("/proc/kallsyms").or_cause("cannot read /proc/kallsyms")?;
    Ok(find(&btf, &symbols, name))
}

fn find(btf: &Btf<'_>, symbols: &str, structure: &str) -> Vec<Function> {
    let pointers: Vec<_> =
        btf.type_by_kind::<Ptr<'_>>().filter(|pointer| is_to(pointer, structure)).collect();
    let pointers: Vec<_> = pointers.iter().map(|pointer| pointer.type_id()).collect();
    let mut found = BTreeMap::new();
    for function in btf.type_by_kind::<Func<'_>>() {
        let Some(proto) = function.next_type().and_then(|proto| FuncProto::try_from(proto).ok()) else {
            continue;
        };
        let is_it = |nth: &usize| proto.get(*nth).is_some_and(|argument| pointers.contains(&argument.ty));
        let Some(nth) = (0..proto.len()).find(is_it) else { continue };
        let Some(name) = function.name().and_then(OsStr::to_str) else { continue };
        let before = (0..nth).filter_map(|nth| btf.type_by_id(proto.get(nth)?.ty));
        // A large value is returned through a hidden first argument.
        let argument = before.chain(proto.next_type()).all(fits_a_register).then_some(nth);
        found.insert(name, argument);
    }
    let addresses = addresses(symbols, &found.keys().copied().collect());
    let function = |(name, argument): (&str, Option<usize>)| {
        // With several addresses, the kernel would probe any of these functions.
        let address = match addresses.get(name).map_or(&[][..], Vec::as_slice) {
            [address] if *address != 0 => Some(*address),
            _ => None,
        };
        Function { name: name.to_owned(), argument: argument.filter(|_| address.is_some()), address }
    };
    found.into_iter().map(function).collect()
}

/// The functions in the text of `/proc/kallsyms`, which has some 200,000 lines such as `ffffffff81000010 T submit_bio`: the
/// address, which is 0 if the kernel hides it, and the name. After a module's function, the name goes on with a tab and
/// the module.
pub fn of_kallsyms(symbols: &str) -> impl Iterator<Item = (u64, &str)> {
    symbols.lines().filter_map(|line| {
        let (address, rest) = line.split_at_checked(16)?;
        let name = [" t ", " T ", " w ", " W "].iter().find_map(|kind| rest.strip_prefix(kind))?;
        Some((u64::from_str_radix(address, 16).unwrap_or_default(), name))
    })
}

/// The addresses of these functions of the kernel itself.
fn addresses<'a>(symbols: &'a str, wanted: &HashSet<&str>) -> HashMap<&'a str, Vec<u64>> {
    let mut found = HashMap::<_, Vec<_>>::new();
    for (address, name) in of_kallsyms(symbols).filter(|(_, name)| wanted.contains(name)) {
        found.entry(name).or_default().push(address);
    }
    found
}

fn is_to(pointer: &BtfType<'_>, structure: &str) -> bool {
    pointer.next_type().is_some_and(|pointed| {
        let pointed = pointed.skip_mods_and_typedefs();
        pointed.kind() == BtfKind::Struct && pointed.name().is_some_and(|name| name == structure)
    })
}

/// Whether an argument or a result of this type takes exactly one register.
fn fits_a_register(ty: BtfType<'_>) -> bool {
    let ty = ty.skip_mods_and_typedefs();
    let size = match ty.kind() {
        BtfKind::Struct => Struct::try_from(ty).map(|ty| ty.size()),
        BtfKind::Union => Union::try_from(ty).map(|ty| ty.size()),
        BtfKind::Int => Int::try_from(ty).map(|ty| ty.size()),
        _ => return true,
    };
    size.is_ok_and(|size| (1..=size_of::<u64>()).contains(&size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_whole_name_however_many_have_it() {
        let symbols = "ffffffff81000010 T submit_bio\nffffffff81000020 t submit_bio_wait\n\
                       ffffffff81000030 D bio_endio\nffffffff81000040 t bio_put\nffffffffc0000040 t bio_put\t[x]\n\
                       ffffffff81000050 W bio_put\n0\n";
        let found = addresses(symbols, &HashSet::from(["submit_bio", "bio_endio", "bio_put"]));
        assert_eq!(found.get("submit_bio").unwrap(), &[0xffff_ffff_8100_0010]);
        assert_eq!(found.get("bio_put").unwrap(), &[0xffff_ffff_8100_0040, 0xffff_ffff_8100_0050]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_long_name_is_cut_and_the_text_still_ends() {
        let function = |name: &str| Function { name: name.to_owned(), argument: Some(0), address: None };
        assert_eq!(function("bio_put").text::<8>(), *b"bio_put\0");
        assert_eq!(function("submit_bio").text::<8>(), *b"submit_\0");
        assert_eq!(function("x").addresses().count(), 0);
    }
}

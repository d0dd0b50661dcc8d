//! What the running kernel's types are, where libbpf only says that a program's don't fit.

use std::fmt::Write;

use libbpf_rs::btf::types::{Array, Composite, DeclTag, Func, FuncProto, Ptr, Struct, Typedef, Union};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

use verifier::{KERNELS_TYPES, NO_KFUNC};

use crate::Result;
use crate::preflight::kernel_types;

/// How libbpf names a field that it can't find, and a function of the kernel whose declaration does not fit.
const FIELD: &str = "failed to resolve CO-RE relocation <byte_off> [";
const FUNCTION: &str = "extern (func ksym) '";

/// What the kernel has instead of what these warnings say does not fit: lines for [`verifier::explain`]. `None` if
/// there is nothing to say.
pub fn about(warnings: &str) -> Option<String> {
    let field = warnings
        .lines()
        .find_map(|line| line.split_once(FIELD)?.1.split_once("] ")?.1.split_once(" ("))
        .map(|(field, _)| field);
    let is_other = |line: &&str| line.contains(": func_proto [");
    let function = warnings
        .lines()
        .filter(is_other)
        .find_map(|line| line.split_once(FUNCTION)?.1.split_once('\''))
        .map(|(name, _)| name);
    if field.is_none() && function.is_none() {
        return None;
    }
    let btf = Btf::from_vmlinux().ok()?;
    let mut lines = String::new();
    if let Some(text) = field.and_then(|field| about_field(&btf, field)) {
        let _ = writeln!(lines, "{KERNELS_TYPES}{text}");
    }
    if let Some(name) = function.filter(|name| is_no_kfunc(&btf, name)) {
        let _ = writeln!(lines, "{KERNELS_TYPES}{name}{NO_KFUNC}");
    }
    Some(lines)
}

/// The struct to which the first argument of a tracepoint points, such as `request`; `None` if the kernel has no such
/// tracepoint.
///
/// # Errors
/// If the kernel's types can't be read.
pub fn first_argument(tracepoint: &str) -> Result<Option<String>> {
    let btf = kernel_types()?;
    let find = || {
        let function = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}"))?.next_type()?;
        // Its first parameter is the program's context.
        let first = FuncProto::try_from(function.next_type()?).ok()?.get(1)?.ty;
        let first = btf.type_by_id::<Ptr<'_>>(first)?.next_type()?.skip_mods_and_typedefs();
        Some(first.name()?.to_str()?.to_owned())
    };
    Ok(find())
}

/// What the kernel has at `struct page.flags`. What follows `___` in a structure's name is not part of the kernel's name.
fn about_field(btf: &Btf<'_>, field: &str) -> Option<String> {
    let (structure, path) = field.split_once('.')?;
    let structure = structure.split("___").next()?;
    let name = structure.split(' ').next_back()?;
    let found = btf.type_by_name::<Struct<'_>>(name).map(|found| *found);
    let found = found.or_else(|| btf.type_by_name::<Union<'_>>(name).map(|found| *found));
    let Some(mut at) = found else { return Some(format!("no {structure}")) };
    let mut known = structure.to_owned();
    for name in path.split('.') {
        let Some(member) = member(btf, at, name.split('[').next()?) else {
            return Some(format!("{known} has no {name}"));
        };
        // The path goes on in one of its elements.
        let element = Array::try_from(member).map(|array| array.contained_type());
        at = if name.contains('[') { element.unwrap_or(member) } else { member };
        known = format!("{known}.{name}");
    }
    Some(format!("{known} is of type {}", named(at)))
}

/// The type of a structure's member; the member may be in an anonymous structure.
fn member<'btf>(btf: &'btf Btf<'_>, of: BtfType<'btf>, name: &str) -> Option<BtfType<'btf>> {
    let all = Composite::try_from(of.skip_mods_and_typedefs()).ok()?;
    let found = all.iter().find_map(|member| {
        let of: BtfType<'_> = btf.type_by_id(member.ty)?;
        match member.name {
            Some(other) if !other.is_empty() => (other == name).then_some(member.ty),
            _ => self::member(btf, of, name).map(|found| found.type_id()),
        }
    });
    btf.type_by_id(found?)
}

/// The name of a type, as in C.
fn named(of: BtfType<'_>) -> String {
    let name = of.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match of.kind() {
        BtfKind::Ptr => {
            of.next_type().map_or("void *".to_owned(), |to| format!("{} *", named(to)).replace("* *", "**"))
        }
        BtfKind::Array => Array::try_from(of)
            .map_or_else(|_| name, |all| format!("{}[{}]", named(all.contained_type()), all.capacity())),
        BtfKind::Struct => format!("struct {name}"),
        BtfKind::Union => format!("union {name}"),
        BtfKind::Enum | BtfKind::Enum64 => format!("enum {name}"),
        _ if name.is_empty() => of.next_type().map_or_else(|| "another type".to_owned(), named),
        _ => name,
    }
}

/// Whether the kernel's types say which functions are kfuncs, and this is none of them.
fn is_no_kfunc(btf: &Btf<'_>, name: &str) -> bool {
    let Some(function) = btf.type_by_name::<Func<'_>>(name) else { return false };
    let mut kfuncs = btf
        .type_by_kind::<DeclTag<'_>>()
        .filter(|tag| tag.name().is_some_and(|name| name == "bpf_kfunc"))
        .peekable();
    kfuncs.peek().is_some()
        && kfuncs.all(|tag| tag.next_type().is_none_or(|tagged| tagged.type_id() != function.type_id()))
}

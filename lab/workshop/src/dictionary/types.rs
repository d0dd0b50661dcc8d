//! What BTF says of the kernel's types, as text.

use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{Array, Composite, Enum, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};

/// The row with the size of a struct or a union.
const SIZE: &str = "sizeof";

pub fn kind(ty: &BtfType<'_>) -> &'static str {
    match ty.kind() {
        BtfKind::Struct => "struct",
        BtfKind::Union => "union",
        _ => "enum",
    }
}

/// The members of a type: name, type in C, and place or number.
pub fn members(btf: &Btf<'_>, ty: BtfType<'_>) -> Vec<[String; 3]> {
    let mut found = Vec::new();
    if let Ok(values) = Enum::try_from(ty) {
        found.extend(values.iter().map(|value| [text(value.name), String::new(), value.value.to_string()]));
    } else if let Ok(composite) = Composite::try_from(ty) {
        add_members(btf, &composite, "", 0, &mut found);
        found.push([SIZE.to_owned(), String::new(), composite.size().to_string()]);
    }
    found
}

/// Adds the members of a struct or a union that begins at this bit. Members of a nameless one count as members of the
/// one around it.
fn add_members(
    btf: &Btf<'_>,
    composite: &Composite<'_>,
    within: &str,
    begin: u32,
    found: &mut Vec<[String; 3]>,
) {
    for member in composite.iter() {
        let (offset, is_bits) = match member.attr {
            MemberAttr::Normal { offset } => (begin + offset, false),
            MemberAttr::BitField { offset, .. } => (begin + offset, true),
        };
        let Some(ty) = btf.type_by_id::<BtfType<'_>>(member.ty) else { continue };
        let name = join(within, &text(member.name));
        match Composite::try_from(ty) {
            Ok(inner) if ty.name().is_none() => add_members(btf, &inner, &name, offset, found),
            _ => {
                let bit = if is_bits { format!(":{}", offset % 8) } else { String::new() };
                found.push([name, in_c(btf, member.ty), format!("{}{bit}", offset / 8)]);
            }
        }
    }
}

/// The name of a member within a nameless struct or union, which may itself be a member.
fn join(within: &str, name: &str) -> String {
    let dot = if within.is_empty() || name.is_empty() { "" } else { "." };
    format!("{within}{dot}{name}")
}

pub fn text(name: Option<&std::ffi::OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// A type as C writes it in a declaration.
pub fn in_c(btf: &Btf<'_>, id: TypeId) -> String {
    let Some(ty) = btf.type_by_id::<BtfType<'_>>(id) else { return "void".to_owned() };
    let name = text(ty.name());
    let next = || ty.next_type().map_or_else(|| "void".to_owned(), |next| in_c(btf, next.type_id()));
    match ty.kind() {
        BtfKind::Ptr if next().ends_with('*') => format!("{}*", next()),
        BtfKind::Ptr => format!("{} *", next()),
        BtfKind::Const => format!("const {}", next()),
        BtfKind::Volatile | BtfKind::Restrict | BtfKind::TypeTag => next(),
        BtfKind::FuncProto => "function".to_owned(),
        BtfKind::Array => Array::try_from(ty)
            .map_or(name, |array| format!("{}[{}]", in_c(btf, array.ty()), array.capacity())),
        BtfKind::Struct | BtfKind::Union | BtfKind::Enum => {
            format!("{} {name}", kind(&ty)).trim_end().to_owned()
        }
        BtfKind::Fwd => format!("struct {name}"),
        BtfKind::Void => "void".to_owned(),
        _ => name,
    }
}

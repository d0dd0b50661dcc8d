//! A kernel's types, as BTF, from its image. The kernel need not boot for that.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use common::{Error, OrCause, Result};
use libbpf_rs::btf::Btf;

use machine::host::tools::{GZIP, LZ4, Tool, XZ, ZSTD, output};
use machine::kernels::Kernel;

/// How the packed part of an image begins, and what unpacks it: `scripts/extract-vmlinux` in the kernel's source.
const FORMATS: [(&[u8], Tool, &[&str]); 4] = [
    (b"\x28\xb5\x2f\xfd", ZSTD, &["-dcq", "--memory=2048MB"]),
    (b"\x02\x21\x4c\x18", LZ4, &["-dcq"]),
    (b"\xfd7zXZ\0", XZ, &["-dc"]),
    (b"\x1f\x8b\x08", GZIP, &["-dc"]),
];

pub fn of(kernel: &Kernel) -> Result<Btf<'static>> {
    let image = std::fs::read(&kernel.image).or_cause(format!("cannot read {}", kernel.image.display()))?;
    let none = |evidence: &str| {
        Error::new(format!("cannot read the types of the kernel {}", kernel.name))
            .evidence(format!("{}: {evidence}", kernel.image.display()))
            .fix("name a bzImage that was built with CONFIG_DEBUG_INFO_BTF")
    };
    let packed = packed(&image).ok_or_else(|| none("it is no bzImage"))?;
    let format = FORMATS.iter().find(|(begin, ..)| packed.starts_with(begin));
    let (_, tool, options) = format.ok_or_else(|| none("it is packed in a way that we can't unpack"))?;

    let cannot = "cannot unpack a kernel";
    let mut input = tempfile::tempfile().or_cause(cannot)?;
    input.write_all(packed).and_then(|()| input.rewind()).or_cause(cannot)?;
    let unpacked = tempfile::NamedTempFile::new().or_cause(cannot)?;
    unpack(*tool, options, input, unpacked.path())?;
    Btf::from_path(unpacked.path()).map_err(|error| none(&error.to_string()))
}

fn unpack(tool: Tool, options: &[&str], input: File, file: &Path) -> Result<()> {
    let done = output(tool.command()?.args(options).stdin(input))?;
    std::fs::write(file, done.stdout).or_cause("cannot unpack a kernel")
}

/// The packed kernel in a bzImage, without the four bytes for its size at the end. See `Documentation/arch/x86/boot.rst`.
fn packed(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let bytes = *image.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let sectors = usize::from(*image.get(0x1f1)?);
    let begin = (sectors + 1) * 512 + number(0x248)?;
    image.get(begin..begin + number(0x24c)?.checked_sub(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_else_is_no_kernel() {
        assert!(packed(b"").is_none());
        assert!(packed(&[0; 1024]).is_none());
        assert!(packed(&[0xff; 1024]).is_none());
    }
}

//! What a room kit's root file system contains, for the guest that reads it and the host that makes it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The workbook's top folder in the workshop's guest.
pub const ROOT: &str = "/workbook";

/// The guest's file with the list of stages and examples, as data.
pub const WORKBOOK: &str = "etc/workbook.json";

/// The guest's file with the blocks of a disk with ext4.
pub const FILE_SYSTEM: &str = "etc/ext4.blocks";
const BLOCK: usize = 4096;

/// The blocks of a disk that are not all zeros, each with its number.
pub fn blocks(disk: &[u8]) -> Vec<u8> {
    let blocks = (0_u32..).zip(disk.chunks(BLOCK)).filter(|(_, block)| block.iter().any(|byte| *byte != 0));
    blocks.flat_map(|(number, block)| number.to_le_bytes().into_iter().chain(block.iter().copied())).collect()
}

/// Writes the result of [`blocks`] to a disk that reads as zeros.
pub fn write_blocks(blocks: &[u8], disk: &File) -> std::io::Result<()> {
    for entry in blocks.chunks(4 + BLOCK) {
        if let Some((number, block)) = entry.split_first_chunk() {
            disk.write_all_at(block, u64::from(u32::from_le_bytes(*number)) * BLOCK as u64)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_made_of_its_blocks_that_hold_something() {
        let mut disk = vec![0; 5 * BLOCK];
        disk[BLOCK] = 1;
        disk[4 * BLOCK..].fill(7);
        let found = blocks(&disk);
        assert_eq!(found.len(), 2 * (4 + BLOCK));
        let file = tempfile::tempfile().unwrap();
        file.set_len(disk.len() as u64).unwrap();
        write_blocks(&found, &file).unwrap();
        let mut read = vec![1; disk.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == disk);
    }
}

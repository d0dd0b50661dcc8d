//! Records that a BPF program shares with us: the values of its maps, and its events.
//!
//! libbpf-cargo makes a Rust type for each struct in an object's maps. [`record!`](crate::record!) adds the code that
//! reads it from the kernel's bytes. If the BPF source renames, adds or removes a field, this no longer compiles. If a
//! record has the wrong length, reading it is an error.
//!
//! ```
//! // libbpf-cargo writes this.
//! #[repr(C)]
//! struct bio_info {
//!     bio: u64,
//!     cpu: u32,
//!     comm: [i8; 4],
//! }
//! common::record!(bio_info { bio, cpu, comm });
//!
//! let bytes = [&7_u64.to_ne_bytes()[..], &1_u32.to_ne_bytes(), b"dd\0\0"].concat();
//! let info: bio_info = common::record::read(&bytes)?;
//! assert_eq!((info.bio, info.cpu, info.comm[0]), (7, 1, b'd' as i8));
//! assert!(common::record::read::<bio_info>(&bytes[..12]).is_err());
//! # Ok::<(), common::Error>(())
//! ```

use libbpf_rs::{MapCore, MapFlags};

use crate::{Error, Result};

/// A type that consists of numbers, so it can be read from bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read from the bytes of a BPF program, where it could have any value",
    note = "in the BPF source, declare the field as a number: u8 for a bool, u32 for an enum"
)]
pub trait Record: Sized {
    /// Reads it from exactly as many bytes as it has. Call [`read`], which checks the length.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Record for $number {
            #[inline] // also where it runs for each byte of a name
            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.first_chunk().copied().map_or(0, Self::from_ne_bytes)
            }
        }
    )* };
}
numbers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl<T: Record, const N: usize> Record for [T; N] {
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut items = bytes.chunks(size_of::<T>());
        std::array::from_fn(|_| T::from_bytes(items.next().unwrap_or_default()))
    }
}

/// Reads a field at an offset of a record.
pub fn field<T: Record>(bytes: &[u8], offset: usize) -> T {
    T::from_bytes(bytes.get(offset..offset + size_of::<T>()).unwrap_or_default())
}

/// Makes a struct a [`Record`](crate::record::Record). List all its fields.
#[macro_export]
macro_rules! record {
    ($type:path { $($field:ident),* $(,)? }) => {
        impl $crate::record::Record for $type {
            fn from_bytes(bytes: &[u8]) -> Self {
                Self { $($field: $crate::record::field(bytes, ::std::mem::offset_of!(Self, $field))),* }
            }
        }
    };
}

/// Reads a record.
///
/// # Errors
/// If `bytes` doesn't have the type's length.
pub fn read<T: Record>(bytes: &[u8]) -> Result<T> {
    if bytes.len() == size_of::<T>() { Ok(T::from_bytes(bytes)) } else { Err(wrong_length::<T>(bytes)) }
}

/// Reads a record from the beginning of `bytes`, whatever follows it.
///
/// # Errors
/// If `bytes` is shorter than the type.
pub fn read_first<T: Record>(bytes: &[u8]) -> Result<T> {
    bytes.get(..size_of::<T>()).map(T::from_bytes).ok_or_else(|| wrong_length::<T>(bytes))
}

fn wrong_length<T>(bytes: &[u8]) -> Error {
    Error::new("a record of a BPF program is not as long as its type")
        .evidence(format!("{} bytes for a {}", bytes.len(), std::any::type_name::<T>()))
        .fix("build the program again: cargo clean, then cargo build")
}

/// Reads a record whose size the kernel has rounded up to a multiple of 8 bytes. It does so for the values of per-CPU
/// maps and for events in a perf buffer.
///
/// # Errors
/// If `bytes` is shorter than the type, or longer than the rounded size.
pub fn read_rounded<T: Record>(bytes: &[u8]) -> Result<T> {
    let rounded = (size_of::<T>()..size_of::<T>() + 8).contains(&bytes.len());
    read(if rounded { &bytes[..size_of::<T>()] } else { bytes })
}

/// A map's value for this key; `None` if there is none.
///
/// # Errors
/// If the map can't be read, or its values are not as long as `T`.
pub fn lookup<T: Record>(map: &impl MapCore, key: &[u8]) -> Result<Option<T>> {
    map.lookup(key, MapFlags::ANY)?.map(|value| read(&value)).transpose()
}

/// Reads a list of records, such as the addresses of a stack.
///
/// # Errors
/// If the last one is not as long as `T`.
pub fn read_list<T: Record>(bytes: &[u8]) -> Result<Vec<T>> {
    bytes.chunks(size_of::<T>()).map(read).collect()
}

/// Each CPU's value for this key of a per-CPU array.
///
/// # Errors
/// If the map can't be read, or its values are not as long as `T`.
pub fn of_each_cpu<T: Record>(map: &impl MapCore, key: u32) -> Result<Vec<T>> {
    read_each(map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?)
}

/// Reads what `lookup_percpu()` has returned: a value for each CPU.
///
/// # Errors
/// If the values are not as long as `T`.
pub fn read_each<T: Record>(cpus: Option<Vec<Vec<u8>>>) -> Result<Vec<T>> {
    cpus.iter().flatten().map(|value| read_rounded(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_wrong_length_is_an_error() {
        assert_eq!(read::<[u32; 2]>(&[1, 0, 0, 0, 2, 0, 0, 0]).unwrap(), [1, 2]);
        // The kernel rounds each CPU's value up to 8 bytes.
        let cpus = Some(vec![vec![7, 0, 0, 0, 0, 0, 0, 0], vec![9, 0, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(read_each::<u32>(cpus).unwrap(), [7, 9]);
        for length in [0, 7, 9] {
            assert!(read::<u64>(&vec![0; length]).is_err(), "{length} bytes");
        }
        assert_eq!(read_rounded::<u32>(&[7, 0, 0, 0, 1, 1, 1, 1]).unwrap(), 7);
        assert_eq!(read_first::<u16>(&[7, 0, 1]).unwrap(), 7);
        assert!(read_first::<u16>(&[7]).is_err());
        assert!(read_rounded::<u32>(&[0; 3]).is_err() && read_rounded::<u32>(&[0; 12]).is_err());
        insta::assert_snapshot!(read::<u64>(&[0; 12]).unwrap_err(), @"
        a record of a BPF program is not as long as its type
          evidence: 12 bytes for a u64
          fix:      build the program again: cargo clean, then cargo build
        ");
    }
}

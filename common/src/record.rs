//! Records that a BPF program shares with us: the values of its maps, and its events.
//!
//! libbpf-cargo makes a Rust type of each struct that the maps of an object name. [`record!`](crate::record!) lets
//! it be read from the bytes that the kernel hands out. A field that the BPF source renames, adds or removes is an error
//! when this is compiled, and a record of another length is an error when it is read.
//!
//! ```
//! // As libbpf-cargo writes it.
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

/// A type that consists of numbers, and can be read from their bytes.
pub trait Record: Sized {
    /// Reads it from exactly as many bytes as it has; [`read`] sees to that.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Record for $number {
            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.first_chunk().copied().map_or(0, Self::from_ne_bytes)
            }
        }
    )* };
}
numbers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl<T: Record, const N: usize> Record for [T; N] {
    fn from_bytes(bytes: &[u8]) -> Self {
        std::array::from_fn(|nth| field(bytes, nth * size_of::<T>()))
    }
}

/// Reads what begins at this byte of a record.
pub fn field<T: Record>(bytes: &[u8], offset: usize) -> T {
    T::from_bytes(bytes.get(offset..offset + size_of::<T>()).unwrap_or_default())
}

/// Makes a record of a struct, all of whose fields are named.
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
/// If the bytes are more or fewer than it has.
pub fn read<T: Record>(bytes: &[u8]) -> Result<T> {
    if bytes.len() == size_of::<T>() { Ok(T::from_bytes(bytes)) } else { Err(other_length::<T>(bytes)) }
}

/// Reads a record that others may follow in `bytes`.
///
/// # Errors
/// If the bytes are fewer than it has.
pub fn read_first<T: Record>(bytes: &[u8]) -> Result<T> {
    bytes.get(..size_of::<T>()).map(T::from_bytes).ok_or_else(|| other_length::<T>(bytes))
}

fn other_length<T>(bytes: &[u8]) -> Error {
    Error::new("a record of a BPF program has another length than its type")
        .evidence(format!("{} bytes for a {}", bytes.len(), std::any::type_name::<T>()))
        .fix("build the program again: cargo clean, then cargo build")
}

/// Reads a record that the kernel has rounded up to a multiple of 8 bytes, as a per-CPU map's value or an event of a perf
/// buffer.
///
/// # Errors
/// If the bytes are fewer than it has, or more than that.
pub fn read_rounded<T: Record>(bytes: &[u8]) -> Result<T> {
    let rounded = (size_of::<T>()..size_of::<T>() + 8).contains(&bytes.len());
    read(if rounded { &bytes[..size_of::<T>()] } else { bytes })
}

/// A map's value under this key; `None` if there is none.
///
/// # Errors
/// If the map can't be read, or its values are no `T`.
pub fn lookup<T: Record>(map: &impl MapCore, key: &[u8]) -> Result<Option<T>> {
    map.lookup(key, MapFlags::ANY)?.map(|value| read(&value)).transpose()
}

/// A map's value that is a list, as long as the map says, such as a stack's addresses; `None` if there is none.
///
/// # Errors
/// If the map can't be read, or its values are no list of `T`.
pub fn lookup_list<T: Record>(map: &impl MapCore, key: &[u8]) -> Result<Option<Vec<T>>> {
    let list = |value: Vec<u8>| value.chunks(size_of::<T>()).map(read).collect();
    map.lookup(key, MapFlags::ANY)?.map(list).transpose()
}

/// The value of each CPU under this key of a per-CPU array.
///
/// # Errors
/// If the map can't be read, or its values are no `T`.
pub fn of_each_cpu<T: Record>(map: &impl MapCore, key: u32) -> Result<Vec<T>> {
    let values = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    values.iter().map(|value| read_rounded(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_length_is_an_error() {
        assert_eq!(read::<[u32; 2]>(&[1, 0, 0, 0, 2, 0, 0, 0]).unwrap(), [1, 2]);
        for length in [0, 7, 9] {
            assert!(read::<u64>(&vec![0; length]).is_err(), "{length} bytes");
        }
        assert_eq!(read_rounded::<u32>(&[7, 0, 0, 0, 1, 1, 1, 1]).unwrap(), 7);
        assert_eq!(read_first::<u16>(&[7, 0, 1]).unwrap(), 7);
        assert!(read_first::<u16>(&[7]).is_err());
        assert!(read_rounded::<u32>(&[0; 3]).is_err() && read_rounded::<u32>(&[0; 12]).is_err());
        insta::assert_snapshot!(read::<u64>(&[0; 12]).unwrap_err(), @"
        a record of a BPF program has another length than its type
          evidence: 12 bytes for a u64
          fix:      build the program again: cargo clean, then cargo build
        ");
    }
}

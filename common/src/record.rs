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
    /// Reads it from the beginning of `bytes`; `None` if they are too few.
    fn first(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Record for $number {
            fn first(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().copied().map(Self::from_ne_bytes)
            }
        }
    )* };
}
numbers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl<T: Record, const N: usize> Record for [T; N] {
    fn first(bytes: &[u8]) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|nth| T::first(bytes.get(nth * size_of::<T>()..)?)).collect();
        items?.try_into().ok()
    }
}

/// Makes a record of a struct, all of whose fields are named.
#[macro_export]
macro_rules! record {
    ($type:path { $($field:ident),* $(,)? }) => {
        impl $crate::record::Record for $type {
            fn first(bytes: &[u8]) -> ::std::option::Option<Self> {
                // Else the array of a longer struct would be read over its end.
                let bytes = bytes.get(..::std::mem::size_of::<Self>())?;
                Some(Self {
                    $($field: $crate::record::Record::first(bytes.get(::std::mem::offset_of!(Self, $field)..)?)?),*
                })
            }
        }
    };
}

/// Reads a record.
///
/// # Errors
/// If the bytes are more or fewer than it has.
pub fn read<T: Record>(bytes: &[u8]) -> Result<T> {
    let wrong = || {
        Error::new("a record of a BPF program has another length than its type")
            .evidence(format!("{} bytes for a {}", bytes.len(), std::any::type_name::<T>()))
            .fix("build the program again: cargo clean, then cargo build")
    };
    if bytes.len() != size_of::<T>() {
        return Err(wrong());
    }
    T::first(bytes).ok_or_else(wrong)
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
    // The kernel rounds each up to a multiple of 8 bytes.
    values.iter().map(|value| read(value.get(..size_of::<T>()).unwrap_or(value))).collect()
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
        insta::assert_snapshot!(read::<u64>(&[0; 12]).unwrap_err(), @"
        a record of a BPF program has another length than its type
          evidence: 12 bytes for a u64
          fix:      build the program again: cargo clean, then cargo build
        ");
    }
}

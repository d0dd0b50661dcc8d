//! The room kit, made on your machine. Its guest's side is in the crate `guest`.

pub mod bundle;
pub mod compilers;
pub mod licenses;
pub mod workshop;

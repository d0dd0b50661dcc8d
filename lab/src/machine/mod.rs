//! Boots a kernel in QEMU and runs programs in the guest.

pub mod image;
pub mod kernels;
pub mod line;
pub mod signals;
pub mod terminal;
pub mod vm;

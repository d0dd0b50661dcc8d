//! The emulated machine, from your side: kernels and their lock, the guest's image, QEMU, and the line to the guest. And what it
//! boots with: your machine's own programs, and the workbook's stages and examples.

#![deny(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod apt;
pub mod boot;
pub mod cross;
mod emulator;
pub mod executor;
pub mod fetch;
pub mod host;
pub mod image;
pub mod kernels;
pub mod line;
pub mod lock;
pub mod qemu;
pub mod signals;
pub mod terminal;
pub mod vm;
pub mod workbook;

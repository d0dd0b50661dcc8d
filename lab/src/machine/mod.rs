//! The emulated machine, from your side: kernels and their lock, the guest's image, QEMU, and the line to the guest.
//! May import `host`, `shared`, `workbook`.

pub mod btf;
pub mod compilers;
pub mod cross;
pub mod fetch;
pub mod image;
pub mod kernels;
pub mod line;
pub mod lock;
pub mod qemu;
pub mod runs;
pub mod signals;
pub mod terminal;
pub mod vm;

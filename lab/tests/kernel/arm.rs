//! What is different on arm64.

use lab::machine::kernels::MATRIX;
use lab::shared::arch::Arch;

use crate::arch;

/// The first kernel of the matrix on which fentry and fexit programs can attach on arm64 (Linux 6.4), as its index.
pub const OLDEST: usize = 2;

/// Whether a case can't be right on the kernel with an index.
pub fn impossible(_case: &str) -> impl Fn(usize) -> bool + use<> {
    assert_eq!(MATRIX[OLDEST].name, "6.12");
    move |nth| arch() == Arch::Arm && nth < OLDEST
}

//! What runs inside of the guest.

pub mod check;
pub mod kit;
pub mod null_blk;
pub mod running;
pub mod system;
pub mod truth;
pub mod workload;

//! What a learner calls, as `cargo lab`: exercises, questions, the clinic, the doctor, the demo, lists, the workshop.

#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

pub mod ask;
pub mod clinic;
pub mod compiler;
pub mod demo;
pub mod doctor;
pub mod eject;
pub mod ended;
pub mod exercise;
pub mod list;
pub mod mine;
pub mod prove;
pub mod workshop;

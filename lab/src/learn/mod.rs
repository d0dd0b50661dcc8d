//! What a learner calls: exercises, the doctor, the demo, lists.

pub mod demo;
pub mod doctor;
pub mod exercise;
pub mod list;

//! What a learner calls: exercises, the doctor, the demo, lists.
//! May import `host`, `machine`, `shared`, `workbook`.

pub mod demo;
pub mod doctor;
pub mod exercise;
pub mod list;

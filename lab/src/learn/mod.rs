//! What a learner calls: exercises, the clinic, the doctor, the demo, lists, the kernel's types. Also the plans of a class.
//! May import `host`, `machine`, `shared`, `workbook`.

pub mod clinic;
pub mod demo;
pub mod doctor;
pub mod exercise;
pub mod list;
pub mod plan;
pub mod rehearse;
pub mod types;
pub mod workshop;

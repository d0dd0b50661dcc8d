//! Stage 10: every `struct bio`, through every function that takes one.

pub mod page;

//! ctracer: follows every object of a class, such as every `struct bio`, through all functions of the kernel that take one.
//!
//! [`find`] the functions in the kernel's types, [`attach`] to them, [`record`] what they tell into a [`recording`], make a
//! [`tree`] of its calls and lives of its objects, and show it: [`view`].

#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod attach;
pub mod find;
pub mod page;
pub mod record;
pub mod recording;
pub mod source;
pub mod tree;
pub mod view;

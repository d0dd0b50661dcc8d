//! ctracer follows every object of a class, such as every `struct bio`, through all kernel functions that take one.
//!
//! [`find`] searches the kernel's types for the functions, [`attach`] attaches to them, and [`record`] writes the events
//! into a [`recording`]. From a recording, [`tree`] builds the tree of calls and the lives of the objects, and [`view`]
//! shows them.

#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod attach;
pub mod events;
pub mod find;
pub mod page;
pub mod record;
pub mod recording;
pub mod source;
pub mod tree;
pub mod view;

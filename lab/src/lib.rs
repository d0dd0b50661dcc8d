//! The workbook's driver: boots a real kernel in QEMU and runs a stage in it. Called as `cargo lab`.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod bench;
pub mod bundle;
pub mod channels;
pub mod check;
pub mod copies;
pub mod demo;
pub mod device_mapper;
pub mod diff;
pub mod doctor;
pub mod drift;
pub mod exercise;
pub mod files;
pub mod guest;
pub mod image;
pub mod interrupt;
pub mod kernels;
pub mod kit;
pub mod list;
pub mod null_blk;
pub mod observe;
pub mod peers;
pub mod protocol;
pub mod record;
pub mod schedule;
pub mod sync;
pub mod terminal;
pub mod tools;
pub mod truth;
pub mod vm;
pub mod vmlinux;
pub mod workbook;
pub mod workload;

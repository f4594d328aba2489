#![doc = include_str!("../README.md")]

mod batcher;
mod error;
#[cfg(test)]
mod tests;

pub use batcher::{Batcher, Limits, SLOT_PATIENCE};
pub use error::BatchError;

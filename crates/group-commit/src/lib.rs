#![doc = include_str!("../README.md")]

mod batcher;
mod error;
mod leader;
mod queue;
#[cfg(test)]
mod tests;

pub use batcher::{Answer, Batcher, Limits, SLOT_PATIENCE, Slots, Turn};
pub use error::BatchError;

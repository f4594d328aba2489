#![doc = include_str!("../README.md")]

mod batcher;
mod error;
mod leader;
mod limits;
mod queue;
mod shared;
#[cfg(test)]
mod tests;

pub use batcher::Batcher;
pub use error::BatchError;
pub use limits::{Limits, Slots};
pub use shared::{Answer, Turn};

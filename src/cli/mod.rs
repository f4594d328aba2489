//! cli
pub mod crowd;

//! The operator's board, in a real browser.

pub mod money;
pub mod sales;
mod switching;

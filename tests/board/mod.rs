//! The operator's board, in a real browser.

mod lines;
pub mod money;
pub mod sales;
mod switching;

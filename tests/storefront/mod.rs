//! The storefront, in a real browser.

mod browsers;
mod lines;
mod older;
mod payments;
pub mod sale;
pub mod stillness;
mod streams;

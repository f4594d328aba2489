//! The storefront, in a real browser.

mod browsers;
mod cards;
mod lines;
mod old_browsers;
mod older;
mod payments;
pub mod sale;
pub mod stillness;
mod streams;

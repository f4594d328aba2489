//! The storefront, in a real browser.

mod app_payments;
mod below_a_path;
mod cards;
mod lines;
mod lost_answers;
mod old_browsers;
mod older;
mod payments;
pub mod sale;
pub mod stillness;

//! The purchase: what a buyer's request goes through between the API and the database.
//!
//! [`purchase`] tells the story, and `admission.rs` which attempts may begin. Their parts, in reading order: [`Strategy`], the
//! settings; [`sales`], [`recent_orders`] and [`owners`], what memory knows; [`breaker`], the circuit breaker of a sale.
//! [`Failure`] is the table of failures, and of what the buyer is told then. [`audit`] judges the result from the database alone.

mod admission;
pub mod audit;
pub mod breaker;
mod broken_promises;
mod error;
mod options;
pub mod owners;
#[allow(clippy::module_inception)] // the story of the one thing that this module is about
pub mod purchase;
pub mod recent_orders;
pub mod sales;
mod strategy;

pub use error::{Answer, Books, Circuit, Failure, PurchaseError};
pub use options::{DEFAULT_BURST, DEFAULT_BUYER_RATE, PurchasesOptions};
pub use purchase::{PurchaseLoad, Purchases};
pub use strategy::{Strategy, UnknownStrategy};

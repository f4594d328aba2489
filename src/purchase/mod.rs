//! The purchase: what a buyer's request goes through between the API and the database.
//!
//! [`purchase`] tells the story. Its parts, in reading order: [`Strategy`], its settings;
//! [`sales`], [`recent_orders`] and [`owners`], what memory knows; [`breaker`], the circuit breaker of a sale. [`Failure`] is the table of what can go wrong, and
//! what the buyer hears then. [`audit`] judges the result from the database alone.

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

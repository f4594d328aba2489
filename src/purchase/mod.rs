//! The purchase: what a buyer's request goes through between the API and the database.
//!
//! [`purchase`] tells the story. Its parts, in reading order: [`Strategy`], its settings;
//! [`sales`], [`recent_orders`] and [`owners`], what memory knows; `in_flight`, one purchase of a buyer at
//! a time; [`breaker`], the circuit breaker of a sale.
//! [`audit`] judges the result from the database alone.

pub mod audit;
pub mod breaker;
mod error;
mod in_flight;
pub mod owners;
pub mod purchase;
pub mod recent_orders;
pub mod sales;
mod strategy;

pub use error::PurchaseError;
pub use purchase::{DEFAULT_BURST, PurchaseLoad, Purchases, PurchasesOptions};
pub use strategy::{Strategy, UnknownStrategy};

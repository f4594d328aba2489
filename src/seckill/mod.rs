//! The purchase: what a buyer's request goes through between the API and the database.
//!
//! [`Purchases`] is the service. It answers from memory what it can ([`catalog`]), bounds
//! what is under way ([`admission`]), and hands the rest to a [`Strategy`], one file each.
//! [`audit`] judges the result from the database alone.

pub mod admission;
pub mod audit;
pub mod catalog;
mod error;
mod group_commit;
mod line;
mod locked;
mod seller;
mod service;
mod strategy;

pub use error::PurchaseError;
pub use service::{Purchases, PurchasesOptions};
pub use strategy::{Request, Strategy, StrategyName, UnknownStrategy};

//! The purchase: what a buyer's request goes through between the API and the database.
//!
//! [`Purchases`] is the service. It answers from memory what it can ([`catalog`]), refuses what
//! is too much ([`gate`]), and hands the rest to a [`Strategy`], one file each. Those that commit
//! together have their lines in files of their own. [`admission`] keeps
//! them away from a database that has failed.
//! [`audit`] judges the result from the database alone.

pub mod admission;
pub mod audit;
pub mod benched;
mod bought;
mod care;
pub mod catalog;
mod entry;
mod error;
pub mod gate;
mod group_commit;
mod line;
mod locked;
mod look;
mod seller;
mod service;
mod strategy;
mod turn;

pub use benched::Benched;
pub use error::PurchaseError;
pub use gate::{Comer, GateOptions};
pub use service::{DEFAULT_BURST, Purchases, PurchasesOptions};
pub use strategy::{Request, Strategy, StrategyName, UnknownStrategy};

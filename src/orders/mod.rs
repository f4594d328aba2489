//! The life of an order after the purchase: payment, expiry, refund.
//!
//! [`Orders`] takes the steps that people ask for. [`expiry`] and [`refunds`] are the work that nobody asks
//! for: each is rows in the database, which any server works off, so that nothing is lost with a process.
//! [`PaymentGateway`] is what takes money and gives it back. What decides, also who wins a race, is one
//! statement or function of the database each (migrations/0004_order_life_functions.sql).

pub mod expiry;
mod gateway;
mod payments;
pub mod refunds;
mod steps;
mod worker;

pub use gateway::{GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
pub use payments::PayError;
pub use steps::{Orders, Taken};
pub use worker::Worker;

//! The life of an order after the purchase: payment, expiry, refund. README.md tells the story.
//!
//! [`Orders`] takes the steps that people ask for. [`expiry`], [`gateway_work`] and [`winding_up`] are the work that
//! nobody asks for: each is rows in the database, which any server works off, so that nothing is lost with a
//! process. [`PaymentGateway`] is what takes money and gives it back. What decides, also who wins a race, is one
//! function of the database each (migrations/0002_functions.sql).

pub mod expiry;
mod gateway;
pub mod gateway_work;
pub mod line;
mod pay;
mod steps;
pub mod winding_up;

pub use gateway::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
pub use steps::Orders;

//! The life of an order after the purchase: payment, expiry, refund. README.md tells the story.
//!
//! [`Orders`] takes the steps that people ask for. [`expiry`], [`outbox`], [`winding_up`] and [`event_sender`] are the
//! work that nobody asks for: each is rows in the database, which any server works off, so that nothing is lost with a
//! process. [`PaymentGateway`] is what takes money and gives it back. What decides, also who wins a race, is one
//! function of the database each (migrations/0002_functions.sql).

pub mod event_sender;
pub mod expiry;
mod gateway;
mod gateway_messages;
pub mod line;
pub mod outbox;
mod pay;
mod steps;
pub mod winding_up;

pub use gateway::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
pub use gateway_messages::{ASK_WITHIN, ToGateway};
pub use steps::Orders;

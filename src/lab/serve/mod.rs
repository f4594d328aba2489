//! The rungs over HTTP, for k6, JMeter, `wrk` and plain `curl`: everybody can see them
//! oversell.
//!
//! `routes` says what there is; `stall` is where one rung sells; `market` is all of them in one
//! process, and the one of a node; `buyers`, who comes; `body` and `problem`, what goes in and
//! what comes out that is no success.

mod body;
mod buyers;
mod market;
mod problem;
mod routes;
mod stall;

pub use market::Market;
pub(super) use market::node;

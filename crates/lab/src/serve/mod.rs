//! The rungs over HTTP, for k6, JMeter, `wrk` and plain `curl`, which can watch them oversell.
//!
//! `routes` lists the routes; `rung_service` sells by one rung; `lab_server` serves all of them in one
//! process, or the one rung of a node; `state` is what their requests share; `buyers` keeps the
//! users; `problem` has the answers that are no success.

mod buyers;
mod lab_server;
mod problem;
mod routes;
mod rung_service;
mod state;

pub use lab_server::LabServer;
pub(super) use lab_server::node;

//! What tests of several crates share: the servers of a test run, programs as a test starts and watches
//! them, waiting for an event, nodes of Redis; with the feature `shop` a world of the shop, its client and
//! a browser.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, missing_debug_implementations)]

pub mod closed_port;
pub mod flood;
pub mod golden;
pub mod markdown;
pub mod needs;
pub mod processes;
pub mod program;
pub mod raw_http;
pub mod redis_nodes;
pub mod servers;
#[cfg(feature = "shop")]
pub mod shop;
pub mod still_clock;
pub mod variables;
pub mod wait;

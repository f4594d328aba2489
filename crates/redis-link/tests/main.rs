//! Connections to real servers, and the lock over them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod addresses;
mod closed;
mod dedicated;
mod foreign;
mod tls;
mod topologies;

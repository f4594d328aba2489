//! The tests of the tools, and of the crowds that they send.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod ceiling;
mod check;
mod demo;
mod load_generator;
mod load_servers;
mod outputs;

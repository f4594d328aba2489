//! The integration tests: one binary, one file an area, against real PostgreSQL and real
//! Redis that the project starts itself.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod demo;
mod embedded;
mod faults;
mod load_generator;
mod load_servers;
mod processes;
mod smoke;
mod world;

//! The server's tests: one binary, one file an area, against real PostgreSQL and real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod api;
mod board;
mod chaos;
mod cli;
mod database;
mod docs;
mod faults;
mod load_tools;
mod orders;
mod purchase;
mod scale;
mod storefront;

//! The integration tests: one binary, one file an area, against real PostgreSQL and real
//! Redis that the project starts itself.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod demo;
mod embedded;
mod eventually;
mod faults;
mod load_generator;
mod load_servers;
mod lock;
mod lock_cancelled;
mod lock_faults;
mod order_ids;
mod order_ids_lost;
mod processes;
mod proxy;
mod purchase;
mod purchase_faults;
mod smoke;
mod tidy;
mod world;

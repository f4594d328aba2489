//! The lock's tests, against real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod cli_lock;
mod cli_lock_addresses;
mod cli_lock_operators;
mod cli_lock_patience;
mod cli_lock_shared;
mod lock;
mod lock_at_least;
mod lock_batches;
mod lock_blocking;
mod lock_cancelled;
mod lock_cluster;
mod lock_errors;
mod lock_exclusion;
mod lock_failover;
mod lock_fair;
mod lock_fake;
mod lock_faults;
mod lock_foreign;
mod lock_kinds;
mod lock_late;
mod lock_model;
mod lock_multi;
mod lock_prefix;
mod lock_reconnected;
mod lock_redlock;
mod lock_shards;
mod lock_waiting;
mod lock_wire;
mod public_api;
mod world;

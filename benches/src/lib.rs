//! Benchmarks of seckill.
//!
//! The lock, beside its peers and beside what Redis itself can do: `contender` is the lock under
//! test, ours or a peer's; `pairs`, `handoff`, `waiters` and `reference` are one measurement
//! each; `server` is the private Redis they all run on; `summary`, `report` and `machine` put the
//! figures together. The program (`main.rs`) repeats everything and prints tables;
//! `benches/lock.rs` gives the pairs to criterion.
//!
//! The parts of a purchase and the whole, by criterion alone: `benches/order_ids.rs`,
//! `benches/order_batch.rs` and `benches/purchase.rs`, all in a `shop`, whose servers write to
//! disk and whose books are audited.
//!
//! `together` runs the tasks of either.

pub mod contender;
pub mod handoff;
pub mod machine;
pub mod pairs;
pub mod reference;
pub mod report;
pub mod server;
pub mod shop;
pub mod summary;
pub mod together;
pub mod waiters;

//! **seckill**: a flash-sale voucher backend. A limited stock goes on sale at a
//! fixed minute; nobody is sold what does not exist, nobody buys twice.
//!
//! The modules in reading order, which is also the order of their dependencies:
//!
//! 1. [`model`]: ids, clock, voucher, outcome, and the table of refusals; pure types.
//! 2. [`store`]: PostgreSQL, and what the server keeps in Redis: queries, key names, the order-id worker,
//!    the order writer.
//! 3. [`purchase`]: the purchase, its strategies, what memory knows, the circuit breaker, the audit.
//! 4. [`orders`]: the life of an order after the purchase: payment, expiry, refund.
//! 5. [`config`]: what flags and the environment say.
//! 6. [`http`]: the JSON API; `http/router.rs` lists every route.
//! 7. [`pages`]: pages for people; their scripts and styles are in `web/`.
//!
//! Beside them: [`telemetry`] (every metric name), [`worker`] (tasks in the background), [`doctor`] (what is wrong
//! with the surroundings) and [`cli`] (one file a subcommand).
//!
//! Three libraries of this workspace do what is not about vouchers, and their READMEs say all that a
//! reader of this crate needs to know: `group-commit`, the batcher, `redis-link`, the connections to Redis, and
//! `redisson-lock`, the lock.

pub mod cli;
pub mod config;
pub mod doctor;
pub mod http;
pub mod model;
pub mod orders;
pub mod pages;
pub mod purchase;
pub mod store;
pub mod telemetry;
pub mod worker;

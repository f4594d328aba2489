//! **seckill**: a flash-sale voucher backend. A limited stock goes on sale at a
//! fixed minute; nobody is sold what does not exist, nobody buys twice.
//!
//! The modules in reading order, which is also the order of their dependencies:
//!
//! 1. [`model`]: ids, clock, voucher, outcome and refusal; pure types.
//! 2. [`store`]: PostgreSQL and Redis handles, key names, the order-id worker.
//! 3. [`lock`]: the distributed lock, a library in itself.
//! 4. [`seckill`]: the purchase: service, strategies, admission, audit.
//! 5. [`http`]: the JSON API.
//!
//! Beside them: [`config`] (the only reader of the environment), [`telemetry`],
//! [`embedded`] (private PostgreSQL and Redis as child processes), [`load`] (the
//! load generator) and [`cli`] (one file a subcommand).
//!
//! The teaching part, behind the cargo feature `lab` (on by default), which nothing above
//! knows of: `ladder`, the designs one by one, each with its flaw; `lab`, the proof of what
//! each keeps and of where it breaks.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

pub mod batch;
pub mod ceiling;
pub mod cli;
pub mod config;
pub mod embedded;
pub mod http;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "lab")]
pub mod ladder;
pub mod load;
pub mod lock;
pub mod model;
pub mod seckill;
pub mod store;
pub mod telemetry;

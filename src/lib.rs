//! **seckill**: a flash-sale voucher backend. A limited stock goes on sale at a
//! fixed minute; nobody is sold what does not exist, nobody buys twice.
//!
//! The modules in reading order, which is also the order of their dependencies:
//!
//! 1. [`model`]: ids, clock, voucher, outcome and refusal; pure types.
//! 2. [`batch`]: the batcher. Calls that wait together are sent together.
//! 3. [`store`]: PostgreSQL and Redis, key names, queries, the order-id worker, the order writer.
//! 4. [`lock`]: the distributed lock, a library in itself.
//! 5. [`seckill`]: the purchase, its strategies, what memory knows, the circuit breaker, the audit.
//! 6. [`http`]: the JSON API; `http/router.rs` lists every route.
//! 7. [`pages`]: pages for people; their scripts and styles are in `web/`.
//!
//! Beside them: [`config`] (the only reader of the environment), [`telemetry`] (logs, and every
//! metric name), [`embedded`] (private PostgreSQL, Redis and server processes) and [`cli`] (one file
//! a subcommand).
//!
//! Nothing above knows of the rest, which two cargo features (both on by default) bring in:
//!
//! * `tools`: `load`, the load generator; `ceiling`, the limits of this machine.
//! * `lab`, the teaching part: `ladder`, the designs one by one, each with its flaw; `lab`, the
//!   proof of what each design keeps and of where it breaks.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

pub mod batch;
#[cfg(feature = "tools")]
pub mod ceiling;
pub mod cli;
pub mod config;
pub mod embedded;
pub mod http;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "lab")]
pub mod ladder;
#[cfg(feature = "tools")]
pub mod load;
pub mod lock;
pub mod model;
pub mod pages;
pub mod seckill;
pub mod store;
pub mod telemetry;

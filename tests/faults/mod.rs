//! Faults, for real: nodes and servers are killed, paused and cut off in the middle
//! of a sale. Each test has servers and nodes of its own, because it breaks them.
//!
//! `stage` is what a test breaks, `sale` what is sold on it and the books, `crowd` who buys
//! meanwhile and what they were told.

pub mod crowd;
mod kept_home;
mod nodes;
mod passwords;
mod postgres;
mod readiness;
mod rolling;
pub mod sale;
mod slow_connections;
pub mod stage;
mod standby;
mod stores;

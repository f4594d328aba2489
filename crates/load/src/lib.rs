//! The load generator. It knows HTTP/1.1 and clocks, and nothing of the server
//! it is pointed at: neither its routes nor its strategies.
//!
//! In reading order:
//!
//! 1. [`rush`]: everybody at once. Opens the connections, drops one barrier, and
//!    brings back exactly one [`rush::RequestAnswer`] for every [`rush::PlannedRequest`].
//! 2. `assignment`: which request goes over which connection; pure.
//! 3. `connection`: one HTTP/1.1 connection, and what is known when it breaks.
//! 4. [`outcome`]: what an answer, or none, is counted as.
//! 5. [`latency`]: the histogram and its summary.
//! 6. [`steady`]: requests at a steady rate, or one after another, for as long as told.
//! 7. [`crowd`]: the plan and the report of a rush as JSON, for the process of its
//!    own in which the load is made.
//! 8. [`crowd_process`]: that process, and the one of a steady load, as who starts them
//!    sees them.

mod assignment;
mod connection;
pub mod crowd;
pub mod crowd_process;
mod error;
pub mod latency;
mod open_files;
pub mod outcome;
pub mod rush;
pub mod steady;
pub mod told;
pub mod verdict;

pub use error::LoadError;

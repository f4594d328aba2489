//! Sends a crowd at a sale over HTTP, and judges the sale by what the buyers were told.
//!
//! The crate knows HTTP/1.1, clocks, and the words in which a sale answers. It does not know the
//! server: no database, no strategy. `README.md` says what it promises.
//!
//! In reading order:
//!
//! 1. [`rush`]: everybody at once. Opens the connections, drops one barrier, and
//!    brings back exactly one [`rush::RequestAnswer`] for every [`rush::PlannedRequest`].
//!    `progress` is how far it has come.
//! 2. `assignment`: which request goes over which connection; pure.
//! 3. `connection`: one HTTP/1.1 connection, and what is known when it breaks.
//! 4. [`target`]: how an attempt is written, of one request or of several; [`template`]: its texts; [`place`]:
//!    where a value stands in an answer; [`answer_rules`]: how answers are told apart. Our own server is the
//!    built-in target.
//! 5. [`outcome`]: the word under which an answer is counted, or its absence.
//! 6. [`latency`]: the histogram and its summary.
//! 7. [`crowd`]: the plan and the report of a rush as JSON, for the process that makes the load.
//! 8. [`crowd_process`]: starts that process; [`crowd_command`]: is it.
//! 9. [`told`]: what the buyers were told, summed up.
//! 10. [`verdict`]: the judge; [`rungs`]: what it says of the designs of the ladder, as JSON.
//! 11. [`calls`]: single requests beside a rush, such as payments.

pub mod answer_rules;
mod assignment;
pub mod calls;
mod connection;
pub mod crowd;
pub mod crowd_command;
pub mod crowd_process;
mod error;
mod examples;
pub mod latency;
mod open_files;
pub mod outcome;
pub mod place;
mod progress;
pub mod rungs;
pub mod rush;
pub mod target;
pub mod template;
pub mod told;
pub mod verdict;

pub use error::LoadError;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

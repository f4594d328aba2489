//! A steady load, for measuring: the same kind of request over and over for a given time,
//! in one of two ways (Schroeder, Wierman, Harchol-Balter, "Open Versus Closed: A
//! Cautionary Tale", NSDI 2006).
//!
//! - **Closed**: as soon as a request has its outcome, the next one is sent, on every
//!   connection. It finds what the server can do at the most, and says little of what a
//!   user would see: a server that is slow is asked less often.
//! - **Open**: requests are due at the times of a Poisson process of a given rate, whatever
//!   the server does. So do crowds behave. One that finds all connections taken waits in the
//!   generator for the next free one.
//!
//! **What a latency is.** It counts from the moment the request was *due* to the whole
//! answer, not from when a connection was free to send it. A generator that starts its
//! clock with the sending leaves out exactly the requests that a stalled server kept from
//! being sent, and reports the one stall as one slow request: *coordinated omission* (Gil
//! Tene, "How NOT to Measure Latency", 2013; the generator wrk2 counts as this one does).
//! What counts from the sending is reported beside it as *service* time; the difference is
//! the wait in the generator.
//!
//! In the closed load a request is due when another one has got its outcome; when a connection
//! has to be reopened first, that counts. There are as many under way or waiting as connections
//! were asked for, never more.
//!
//! One request is sent at most once, and has exactly one [outcome](super::outcome). One that
//! was due for longer than [`SteadyPlan::connection_timeout_ms`] without a free connection is
//! `not_sent`. An answer of more than 64 KiB counts as `http_<status>`, a 201 too, because it is not
//! read to its end. Further outcomes after 64 are all counted as `http_other`.
//!
//! In an open load **clients obey `Retry-After`**: a connection stands for a client, and after a 503
//! it is not free for as many seconds as the answer says. In a closed load it comes again at once.
//!
//! A connection that breaks is opened again, at once and then after growing pauses, for as
//! long as the load lasts. Meanwhile its requests go over the others.
//!
//! In reading order: `plan`, what is to be done; `report`, what came of it; `schedule`, when
//! requests are due; `run`, from the plan to the report; `part`, one thread of it; `codes`, `tally`
//! and `sum`, counting.
//!
//! The client is the rush's own (`connection`, on hyper). On the cores that it shares with the
//! server a request costs it some microseconds more than a hand-written parser would.

mod codes;
mod part;
mod plan;
mod report;
mod run;
mod schedule;
mod sum;
mod tally;

pub use super::rush::Progress;
pub use plan::{Arrival, MAX_PER_S, Pairing, Phase, SteadyPlan};
pub use report::{PhaseReport, SteadyLine, SteadyReport, Window};
pub use run::{run, run_on};

//! The lab: shows, on real servers, which promises each rung of the ladder keeps and where it
//! breaks.
//!
//! In reading order: `scenarios`, what happens to a rung; `scheduler`, the actors who go on only
//! when the schedule says so, with `consumers`, who write what was sold before; `judge`, what came
//! of it; `world`, the servers and scratch databases; `node_process` and `node`, the two sides of a process that sells, with the
//! `protocol` between them; `faults`, servers to kill, pause and cut off. Beside the replays:
//! `rush`, a real crowd on a rung, and `serve`, the rungs over HTTP, which both put vouchers
//! on `sale`; and `session`, where somebody else is the scheduler, with the rungs' `source_code`. `report` is what all of it came to: for a terminal, for a program, and as a page.

mod actors;
mod consumers;
pub mod explore;
pub mod faults;
mod judge;
mod leases;
mod lock_servers;
mod node;
mod node_process;
mod protocol;
mod replay;
pub mod report;
mod rush;
mod sale;
pub mod scenarios;
mod scheduler;
mod serve;
pub mod session;
pub mod source_code;
mod steps;
mod timeline;
mod world;

pub use judge::{LabClaim, Observed, Verdict, missing};
pub use lock_servers::LockServers;
pub use node::run as run_node;
pub use replay::{Cell, cells, replay};
pub use rush::{RushOptions, RushReport, WrittenLater, rush, rush_seeded};
pub use scheduler::Scheduler;
pub use serve::LabServer;
pub use timeline::TimelineLine;
pub use world::World;

//! The laboratory of the ladder: it plays every design step by step on a real PostgreSQL, a real Redis and
//! a real ZooKeeper, in real processes that it kills, pauses and cuts off, and judges it by the orders in
//! the database and by what every buyer was told. The crate `seckill-play` shows it to people in a browser.
//!
//! In reading order.
//!
//! - One replay: `cell`, a cell of a matrix; `replay`, what happens to a rung in it; `scheduler`, actors which go on
//!   only when the schedule says so; `steps`, how they go on; `consumers`, which write later what was sold before;
//!   `payments`, of orders that have to be paid; `looks`, what the servers say of transactions and leases;
//!   `timeline`, what happened, and `told`, its words; `judge`, what came of it, and `admissions`, who was let in too often.
//! - Where it happens: `world`, the servers and scratch databases; `lock_servers`, those of a rung's lock;
//!   `node_process` and `node`, the two sides of a process that sells;
//!   the crate `faults`, servers to kill, pause and cut off.
//! - Any other schedule: a `game`, step by step; `explore` walks through every interleaving of it, and in a
//!   `session` somebody else is the scheduler.
//! - The database alone: `isolation`, what its levels of isolation keep, on PostgreSQL and MariaDB.
//! - A real crowd: `rush`, on a rung, and `serve`, the rungs over HTTP; both put vouchers on `sale`.
//! - For people: `report`, what all of it came to, for a terminal, for a program and as a page; `cli`, `seckill lab`.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod admissions;
mod cell;
pub mod cli;
mod consumers;
pub mod explore;
pub mod game;
pub mod isolation;
mod judge;
mod lock_servers;
mod looks;
mod node;
mod node_process;
mod payments;
mod replay;
pub mod report;
mod rush;
mod sale;
mod scheduler;
mod serve;
pub mod session;
mod steps;
mod timeline;
pub mod told;
mod world;

use scheduler::Scheduler;

pub use cell::{Cell, LadderPlace, MatrixPlace};
pub use judge::{Breach, Outcome, missing};
pub use node::run as run_node;
pub use replay::{absent, cells, replay};
pub use rush::{RungSale, RushOptions, RushReport, rush};
pub use sale::judged_books;
pub use serve::LabServer;
pub use timeline::TimelineLine;
pub use world::{World, WorldServers};

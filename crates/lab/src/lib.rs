//! The laboratory of the ladder: it plays every design step by step on a real PostgreSQL, a real Redis and
//! a real ZooKeeper, in real processes that it kills, pauses and cuts off, and judges it by the orders in
//! the database and by what every buyer was told. `seckill play` is here, too.
//!
//! In reading order.
//!
//! - One replay: `replay`, a cell of the matrix; `scenarios`, what happens to a rung; `scheduler` and
//!   `actors`, which go on only when the schedule says so; `steps`, how they go on; `consumers`, which write
//!   later what was sold before; `payments`, of orders that have to be paid; `leases`, what becomes of a lease; `timeline`, what happened, and `told`, its words; `judge`, what
//!   came of it.
//! - Where it happens: `world`, the servers and scratch databases; `lock_servers`, those of a rung's lock;
//!   `node_process` and `node`, the two sides of a process that sells, with the `protocol` between them;
//!   the crate `faults`, servers to kill, pause and cut off.
//! - Any other schedule: a `game`, step by step; `explore` walks through every interleaving of it, and in a
//!   `session` somebody else is the scheduler, with the rungs' `source_code`.
//! - The database alone: `isolation`, what its levels of isolation keep, on PostgreSQL and MariaDB.
//! - A real crowd: `rush`, on a rung, and `serve`, the rungs over HTTP; both put vouchers on `sale`.
//! - For people: `report`, what all of it came to, for a terminal, for a program and as a page; `course`, what
//!   is said of rungs beside their files, and in Chinese; `cli`, `seckill lab`; `play`, `seckill play`: a sale to watch, and the shop; `page`, `/lab` there.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod actors;
pub mod cli;
mod consumers;
pub mod course;
pub mod explore;
pub mod game;
pub mod isolation;
mod judge;
mod leases;
mod lock_servers;
mod node;
mod node_process;
pub mod page;
mod payments;
pub mod play;
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
pub mod told;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use program::Program;
use scheduler::Scheduler;

pub use judge::{Breach, LabClaim, Observed, missing};
pub use node::run as run_node;
pub use replay::{Cell, cells, replay};
pub use rush::{RushOptions, RushReport, WrittenLater, rush, rush_seeded};
pub use serve::LabServer;
pub use timeline::TimelineLine;
pub use world::{World, WorldServers};

/// The course: every design broken and held, and the shop with a crowd
#[derive(Debug, Parser)]
#[command(name = "seckill", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum Command {
    #[command(subcommand)]
    Lab(Box<cli::LabCommand>),
    Play(Box<play::PlayArgs>),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let program = Program {
        also_known: vec![seckill::cli::command()],
        log_filter: |cli: &Cli| match cli.command {
            Command::Lab(_) => seckill::cli::QUIET,
            Command::Play(_) => seckill::cli::SERVING,
        },
        is_unusable: seckill::cli::is_unusable,
    };
    program.main(async |cli: Cli| match cli.command {
        Command::Lab(command) => cli::run(*command).await,
        Command::Play(args) => play::run(*args).await.map(|()| ExitCode::SUCCESS),
    })
}

//! The lab: shows, on real servers, which promises each rung of the ladder keeps and where it
//! breaks.
//!
//! In reading order: `scenarios`, what happens to a rung; `scheduler`, the actors who go on only
//! when the schedule says so, with `consumers`, who write what was sold before; `judge`, what came
//! of it; `world`, the servers and scratch databases; `node_process` and `node`, the two sides of a process that sells, with the
//! `protocol` between them; the crate `faults`, servers to kill, pause and cut off. Beside the replays:
//! `rush`, a real crowd on a rung, and `serve`, the rungs over HTTP, which both put vouchers
//! on `sale`; and `session`, where somebody else is the scheduler, with the rungs' `source_code`. `report` is what all of it came to: for a terminal, for a program, and as a page.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod actors;
pub mod cli;
mod consumers;
pub mod explore;
mod judge;
mod leases;
mod lock_servers;
mod node;
mod node_process;
pub mod page;
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
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use program::Program;

pub use judge::{LabClaim, Observed, Verdict, missing};
pub use lock_servers::LockServers;
pub use node::run as run_node;
pub use replay::{Cell, cells, replay};
pub use rush::{RushOptions, RushReport, WrittenLater, rush, rush_seeded};
pub use scheduler::Scheduler;
pub use serve::LabServer;
pub use timeline::TimelineLine;
pub use world::World;

/// The course: every design broken and held, and everything for people who look and learn.
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
    Lab(cli::LabCommand),
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
        Command::Lab(command) => cli::run(command).await,
        Command::Play(args) => play::run(*args).await.map(|()| ExitCode::SUCCESS),
    })
}

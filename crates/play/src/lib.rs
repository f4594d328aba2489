//! The program `seckill-lab`: `seckill play`, for people who look and learn, and, from the crate `seckill-lab`,
//! `seckill lab`.
//!
//! In reading order: `play`, the server's own router with all of this beside it; `doors`, its first page; `stage`, a
//! sale to watch; `shop` and its `samples`; `login`, with codes that are shown, to those who are `local`; `page`, the
//! game at `/lab`, whose reader is the scheduler; `hmdp`, the HTTP of the course application. The pages of the course
//! are the crate `course`.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod doors;
mod hmdp;
mod local;
mod login;
pub mod page;
pub mod play;
mod samples;
mod shop;
mod stage;

use std::process::ExitCode;

use clap::Parser;
use load::crowd_command;
use program::Program;
use seckill_lab::cli::{self, LabCommand};

/// The course: every design broken and held, and the shop with a crowd
#[derive(Debug, Parser)]
#[command(name = "seckill", version, about, max_term_width = 100)]
#[allow(missing_docs)] // each struct says what it is
pub enum Cli {
    #[command(subcommand)]
    Lab(Box<LabCommand>),
    Play(Box<play::PlayArgs>),
    /// Send a crowd (started by the program itself)
    #[command(hide = true)]
    Crowd,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let program = Program {
        also_known: vec![seckill::cli::command()],
        log_filter: |cli: &Cli| match cli {
            Cli::Lab(_) | Cli::Crowd => seckill::cli::QUIET,
            Cli::Play(_) => seckill::cli::SERVING,
        },
        is_unusable: seckill::cli::is_unusable,
    };
    program.main(async |cli: Cli| match cli {
        Cli::Lab(command) => cli::run(*command).await,
        Cli::Play(args) => play::run(*args).await.map(|()| ExitCode::SUCCESS),
        Cli::Crowd => Ok(crowd_command::run().await.map(|()| ExitCode::SUCCESS)?),
    })
}

//! Shows and measures the server `seckill` from outside: by its HTTP interface, its program, and its
//! database. `README.md` says what it promises.
//!
//! * [`demo`]: a whole flash sale, from the crowd to the verdict.
//! * [`check`]: the judge for anybody's backend.
//! * [`tokens`]: users and their tokens, for load tests.
//! * [`ceiling`]: the limits of this machine, and how close the strategies come.

use std::process::ExitCode;

use clap::Parser;
use load::crowd_command;
use program::Program;

pub mod bare;
pub mod ceiling;
pub mod check;
pub mod demo;
pub mod demo_against;
pub mod demo_board;
pub mod demo_draw;
pub mod demo_payments;
pub mod demo_report;
pub mod demo_sales;
pub mod demo_share;
pub mod demo_waves;
mod process;
pub mod tokens;
pub mod verdict;

/// Demonstrations and measurements of a flash-sale backend.
#[derive(Debug, Parser)]
#[command(name = "seckill", version, about, max_term_width = 100)]
#[allow(missing_docs)] // each struct says what it is
pub enum Cli {
    Demo(demo::DemoArgs),
    Tokens(tokens::TokensArgs),
    Ceiling(Box<ceiling::CeilingArgs>),
    Check(Box<check::CheckArgs>),
    /// Send a crowd (started by the program itself)
    #[command(hide = true)]
    Crowd,
    /// Refuse everybody (started by the program itself)
    #[command(hide = true)]
    Bare,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let program = Program {
        also_known: vec![seckill::cli::command()],
        log_filter: |_: &Cli| seckill::cli::QUIET,
        is_unusable: seckill::cli::is_unusable,
    };
    program.main(run)
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli {
        Cli::Demo(args) => demo::run(args).await,
        Cli::Tokens(args) => tokens::run(args).await.map(|()| ExitCode::SUCCESS),
        Cli::Ceiling(args) => ceiling::run(*args).await,
        Cli::Check(args) => check::run(*args).await,
        Cli::Crowd => Ok(crowd_command::run().await.map(|()| ExitCode::SUCCESS)?),
        Cli::Bare => bare::run().await.map(|()| ExitCode::SUCCESS),
    }
}

//! Chaos: rounds of a sale on two nodes, in each of which a node, Redis or PostgreSQL is killed,
//! paused or cut off, the disk is full, or a clock jumps. After each round every order that a
//! buyer was told of is in the books, the audit holds, and everything sells again by itself.
//!
//! Beside the free sale goes one for money, with a payment gateway of the test's own: in the end no money is
//! lost, and none is given back twice. Another one for money is drawn, and has a line: no entry is lost, and nobody is passed.
//!
//! A seed says which faults come when, and what buyers, the administrator and the gateway choose, each by dice of its own. Ids,
//! the number of the draw, and what meets what at which moment are other ones each time.
//!
//! `plan` is what a seed says of the faults, `round` runs it, `machine` has the faults that not every machine
//! allows, `money` the other sales, `gateway` who takes it, `lines` the draw and the line, `shrink`
//! looks for the fewest faults that still fail, `summary` counts, `rare` says which rare states rounds must have come to.

mod gateway;
mod lines;
mod machine;
mod money;
pub mod plan;
mod rare;
mod round;
mod shrink;
mod summary;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use self::machine::Machine;
use self::plan::Round;
use self::round::{Figures, Ground};
use self::summary::Summary;
use testkit::variables;

/// The servers of the last round, as long as nothing went wrong on them.
#[derive(Default)]
struct Grounds(Vec<Ground>);

impl Grounds {
    /// Runs a round; or says in which words it failed.
    async fn run(&mut self, machine: &Machine, round: &Round) -> Result<Figures, String> {
        let mut ground = match self.0.iter().position(|ground| ground.suits(round)) {
            Some(at) => self.0.swap_remove(at),
            None => Ground::for_round(round).await,
        };
        let run = AssertUnwindSafe(round::run(&mut ground, machine, round)).catch_unwind().await;
        match run {
            Ok(figures) => {
                self.0.push(ground);
                Ok(figures)
            }
            // The next round has servers of its own.
            Err(panic) => {
                let words = panic.downcast_ref::<String>().cloned();
                let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                Err(words.unwrap_or_else(|| "a panic without words".to_owned()))
            }
        }
    }

    async fn end(self) {
        for ground in self.0 {
            ground.end().await;
        }
    }
}

async fn rounds(first: u64, count: u64) {
    eprintln!("chaos: {count} rounds, the first of seed {first}");
    let machine = Machine::look();
    let mut grounds = Grounds::default();
    let mut summary = Summary::default();
    for seed in first..first.saturating_add(count) {
        let mut round = Round::of(seed);
        round.steps.retain(|step| match machine.refuses(step.fault) {
            Some(why) => {
                summary.skip(step.fault, why);
                false
            }
            None => true,
        });
        let figures = match grounds.run(&machine, &round).await {
            Ok(figures) => figures,
            Err(words) => fail(&machine, round, &words).await,
        };
        let number = seed - first + 1;
        eprintln!(
            "{number}/{count} {} | make chaos SEED={seed} ROUNDS=1",
            summary::line(&round, &figures)
        );
        summary.count(&round, figures);
    }
    grounds.end().await;
    eprintln!("chaos: seed {first}, {count} rounds, and every promise was kept\n{summary}");
    summary.judge();
}

/// Looks for the fewest faults that fail, each time on servers of its own, and ends the test with it.
async fn fail(machine: &Machine, round: Round, words: &str) -> ! {
    let seed = round.seed;
    eprintln!(
        "the round of seed {seed} FAILED: {round}\n{words}\nlooking for fewer faults that do, too"
    );
    let least = shrink::smallest(round.clone(), async |round| {
        let mut grounds = Grounds::default();
        let failed = grounds.run(machine, round).await.is_err();
        grounds.end().await;
        eprintln!("{}: {round}", if failed { "fails" } else { "holds" });
        failed
    })
    .await;
    panic!(
        "a round failed: make chaos SEED={seed} ROUNDS=1\n  {round}\n  {words}\n\
         the fewest that still failed:\n  {least}"
    );
}

/// `make chaos`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn whatever_happens_no_order_is_lost_and_everything_sells_again() {
    let seed = variables::number("SEED").unwrap_or_else(|| rand::random_range(0..1_000_000));
    rounds(seed, variables::number("ROUNDS").unwrap_or(100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rounds_of_chaos_lose_no_order() {
    rounds(rand::random_range(0..1_000_000), 2).await;
}

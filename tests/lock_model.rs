//! The lock against a model: random steps of many, and after each what may be true.
//!
//! A sequence that fails is made as small as it gets, and printed with its seed.

mod ground;
mod model;
mod outside;
mod run;
mod settle;
mod steps;
mod wrong;

use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use seckill::embedded::{Home, Plan, Servers};
use tokio::runtime;

use self::ground::Ground;
use self::model::Verdict;
use self::run::Run;
use self::steps::Sequence;
use crate::world::exe;

/// By a real clock, before a test that waits in vain says so.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for what has failed before.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// Sequences that share connections and a runtime.
const BATCH: u64 = 100;

/// A clock that stands still unless the test moves it, however long a server takes to
/// answer, and one thread: what is awaited decides what happens, not chance.
struct Still {
    /// A paused clock leaps ahead when all tasks are idle, but not while something blocks.
    _blocking: mpsc::Sender<()>,
    runtime: runtime::Runtime,
    ground: Ground,
    /// With a clock that runs. Last: the proxies are needed to the end.
    network: runtime::Runtime,
}

impl Still {
    fn new(url: &str, patience: Duration) -> Self {
        let network =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let runtime =
            runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (blocking, until_over) = mpsc::channel();
        runtime.spawn_blocking(move || until_over.recv());
        let ground = runtime.block_on(Ground::new(url, network.handle(), patience));
        Self { _blocking: blocking, runtime, ground, network }
    }

    fn run(&mut self, sequence: &Sequence) -> Verdict {
        let ground = &mut self.ground;
        // On the clock that runs.
        let vain = ground.patience * 2;
        let vain = self.network.spawn(async move { tokio::time::sleep(vain).await });
        self.runtime.block_on(async {
            tokio::select! {
                verdict = Run::new(ground, sequence).steps(sequence) => verdict,
                _ = vain => Err("it hangs".to_owned()),
            }
        })
    }
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 2000,
        max_shrink_time: 120_000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Runs as many sequences, the first of this seed.
fn run(url: &str, seed: u64, count: u64) {
    for first in (seed..seed + count).step_by(BATCH as usize) {
        let still = RefCell::new(Still::new(url, PATIENCE));
        for seed in first..(first + BATCH).min(seed + count) {
            check(url, seed, &still);
        }
    }
}

fn check(url: &str, seed: u64, still: &RefCell<Still>) {
    let mut runner = runner(seed);
    let tree = steps::sequence().new_tree(&mut runner).unwrap();
    let tried = Cell::new(false);
    let outcome = runner.run_one(tree, |sequence| {
        let verdict = if tried.replace(true) {
            // It failed, and left who knows what: ground of its own for each that is smaller.
            Still::new(url, SHORT_PATIENCE).run(&sequence)
        } else {
            still.borrow_mut().run(&sequence)
        };
        verdict.map_err(TestCaseError::fail)
    });
    if let Err(TestError::Fail(reason, sequence)) = &outcome {
        panic!("seed {seed}: {reason}\nthe smallest sequence that fails: {sequence}");
    }
    assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
}

fn redis() -> Servers {
    let plan = Plan { home: Home::Throwaway, postgres: false, redis: true, durable: false };
    Servers::start(exe(), &plan).unwrap()
}

/// A number from the environment: `LOCK_MODEL_SEED=7 LOCK_MODEL_SEQUENCES=1` makes a
/// failure again.
#[expect(clippy::disallowed_methods, reason = "there is no other way to tell a test a number")]
fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn run_told(sequences: u64) {
    let (servers, begun) = (redis(), Instant::now());
    let seed = told("LOCK_MODEL_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let sequences = told("LOCK_MODEL_SEQUENCES").unwrap_or(sequences);
    println!("seed {seed}, {sequences} sequences");
    run(servers.redis_url().unwrap(), seed, sequences);
    println!("all in {:.1?}", begun.elapsed());
}

#[test]
fn random_steps_of_many_do_what_the_model_does() {
    run_told(300);
}

#[test]
#[ignore = "takes minutes: make test-lock-model"]
fn ten_thousand_random_sequences_do_what_the_model_does() {
    run_told(10_000);
}

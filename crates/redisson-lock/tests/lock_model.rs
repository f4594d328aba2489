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
use std::time::{Duration, Instant};

use private_stores::{Home, Plan, Servers};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use self::ground::Ground;
use self::model::Verdict;
use self::run::Run;
use self::steps::Sequence;
use testkit::still_clock::StillClock;
use testkit::variables;

/// By a real clock, before a test that waits in vain says so.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for what has failed before.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// Sequences that share connections and a runtime.
const BATCH: u64 = 100;

struct Still {
    ground: Ground,
    clock: StillClock,
}

impl Still {
    fn new(url: &str, patience: Duration) -> Self {
        let clock = StillClock::new();
        // The proxies run elsewhere: the tasks on this clock are the locks'.
        let making = Ground::new(url, clock.running(), patience);
        let ground = clock.block_on(PATIENCE, making).unwrap();
        Self { ground, clock }
    }

    fn run(&mut self, sequence: &Sequence) -> Verdict {
        let vain = self.ground.patience * 2;
        let ground = &mut self.ground;
        let running = async { Run::new(ground, sequence).steps(sequence).await };
        self.clock.block_on(vain, running).unwrap_or_else(|| Err("it hangs".to_owned()))
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
            // More than once: how far a future came when it was dropped is up to the server.
            (0..3).try_for_each(|_| Still::new(url, SHORT_PATIENCE).run(&sequence))
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
    Servers::start(&plan).unwrap()
}

/// `LOCK_MODEL_SEED=7 LOCK_MODEL_SEQUENCES=1` makes a failure again.
fn run_told(sequences: u64) {
    let (servers, begun) = (redis(), Instant::now());
    let seed = variables::number("LOCK_MODEL_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let sequences = variables::number("LOCK_MODEL_SEQUENCES").unwrap_or(sequences);
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

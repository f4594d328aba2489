//! Workers of order ids by random steps: ids rise in each and none comes twice, whatever the clock and Redis do.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta};
use futures_util::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use seckill::model::{Clock, ManualClock, OrderId};
use seckill::store::{Keys, OrderIds};
use testkit::shop::world::{World, midnight};

use super::order_ids::{assert_all_differ, next_many, next_within, second_of, with_counter};

/// What happens to workers that share a counter. They are numbered.
#[derive(Debug, Clone)]
enum Step {
    /// So many ids are asked for at once, and given up after so many looks.
    GiveUp(usize, usize, usize),
    /// So many are asked for, then Redis loses the counter, or so much of it, and as many more are asked for, while all are
    /// under way: on one connection commands run in the order in which they were sent.
    Lose(usize, usize, Option<i64>),
    /// The clock moves on, or back, by milliseconds.
    Clock(i64),
    /// Another process, which begins after the last id of the database.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (worker, count) = (0..3_usize, 0..40_usize);
    let fall = prop_oneof![2 => Just(None), 1 => (1..60_i64).prop_map(Some)];
    // Also to before 2022, and before 1970.
    let clock = prop_oneof![
        4 => -3_000..3_000_i64,
        4 => -100_000_000..100_000_000_i64,
        1 => Just(-160_000_000_000_i64),
        1 => Just(-2_000_000_000_000_i64),
    ];
    let given_up = (worker.clone(), count.clone(), 0..6_usize);
    prop_oneof![
        3 => given_up.prop_map(|(worker, count, looks)| Step::GiveUp(worker, count, looks)),
        2 => (worker.clone(), count, fall).prop_map(|(it, count, by)| Step::Lose(it, count, by)),
        2 => clock.prop_map(Step::Clock),
        1 => worker.prop_map(Step::Restart),
    ]
}

/// Workers, each with the last id that it must not go back behind, and what they have drawn.
struct Run {
    world: World,
    workers: Vec<(OrderIds, Option<OrderId>)>,
    all: Vec<OrderId>,
    losses: i64,
}

impl Run {
    async fn new(world: &World, count: usize) -> Self {
        let keys = Keys::with_prefix(&format!("ids_{:x}:", rand::random::<u64>()));
        let clock = Arc::new(ManualClock::starting_at(midnight()));
        let world = World { keys, clock, ..world.clone() };
        let workers = (0..count).map(|_| (world.order_ids(None), None)).collect();
        let mut run = Self { world, workers, all: Vec::new(), losses: 0 };
        run.each_draws().await;
        run
    }

    async fn each_draws(&mut self) {
        for worker in 0..self.workers.len() {
            let drawn = next_many(&self.workers[worker].0, 3).await;
            self.keep(worker, drawn);
        }
    }

    /// Each is greater than the one before it. A clock that went back is not followed, and a loss costs a second at most.
    fn keep(&mut self, worker: usize, drawn: impl IntoIterator<Item = OrderId>) {
        let second = self.second(worker);
        for id in drawn {
            let last = self.workers[worker].1.replace(id);
            assert!(Some(id) > last, "{id} after {last:?}");
            assert!((second..=second + self.losses).contains(&id.second()), "{id} at {second}");
            self.all.push(id);
        }
    }

    /// That of the worker's next id.
    fn second(&self, worker: usize) -> i64 {
        let last = self.workers[worker].1.map_or(-1, OrderId::second);
        second_of(self.world.clock.now()).max(last)
    }

    fn greatest(&self) -> OrderId {
        *self.all.iter().max().unwrap()
    }

    /// Ids of several processes may be the same in the second in which Redis loses the counter.
    fn leave_the_second(&self) {
        if self.workers.len() > 1 {
            self.world.clock.set(self.greatest().instant() + TimeDelta::seconds(5));
        }
    }

    async fn lose(&mut self, worker: usize, count: usize, fall: Option<i64>) {
        self.leave_the_second();
        self.losses += 1;
        let ids = &self.workers[worker].0;
        let second = OrderId::EPOCH_SECONDS + self.second(worker);
        let day = DateTime::from_timestamp(second, 0).unwrap();
        let command = if fall.is_some() { "DECRBY" } else { "DEL" };
        let losing = with_counter::<i64>(&self.world, day, command, fall);
        let (before, _, after) = tokio::join!(next_many(ids, count), losing, next_many(ids, count));
        self.keep(worker, before.into_iter().chain(after));
        self.leave_the_second();
        self.each_draws().await;
    }

    async fn take(&mut self, step: Step) {
        let workers = self.workers.len();
        let of = |worker: usize| worker % workers;
        match step {
            Step::GiveUp(worker, count, looks) => {
                let (worker, ids) = (of(worker), &self.workers[of(worker)].0);
                let drawn = join_all((0..count).map(|_| next_within(ids, looks))).await;
                self.keep(worker, drawn.into_iter().flatten());
                self.each_draws().await;
            }
            Step::Lose(worker, count, fall) => self.lose(of(worker), count, fall).await,
            Step::Clock(by) => {
                self.world.clock.set(self.world.clock.now() + TimeDelta::milliseconds(by));
            }
            Step::Restart(worker) => {
                let (worker, last) = (of(worker), Some(self.greatest()));
                self.workers[worker] = (self.world.order_ids(last), last);
            }
        }
    }
}

/// On a runtime of one thread all requests of a step are sent in their order.
#[test]
fn ids_rise_and_none_comes_twice_whatever_the_clock_and_redis_do() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new());
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let drawn =
        TestRunner::new(config).run(&(1..=3_usize, vec(step(), 1..30)), |(count, steps)| {
            runtime.block_on(async {
                let mut run = Run::new(&world, count).await;
                for step in steps {
                    run.take(step).await;
                }
                assert_all_differ(&run.all);
            });
            Ok(())
        });
    drawn.unwrap();
}

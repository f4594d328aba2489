//! Random sequences of steps, which a driver takes one after the other. After each step the answer and the database are
//! compared with the model, and at the end, when the workers have done their work, the audit holds.

use std::cell::{Cell, RefCell};

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use seckill::model::Clock;
use seckill::orders::winding_up::WindingUp;
use seckill::store::StoreError;
use testkit::shop::world::World;
use tokio::runtime::Runtime;

use super::case::Case;
use super::model::{Amount, By, Money, Name, Said, Seconds, Shop, Step, Terms, Voucher, Who};

/// A way to take the steps.
pub trait Driver {
    /// What the step answers, of which the model says `expected`. `None`: nobody knows what became of it, because the machine
    /// is busy.
    fn take(
        &mut self,
        case: &Case<'_>,
        step: Step,
        expected: &str,
    ) -> impl Future<Output = Option<String>>;

    /// What this driver can see of the model's answer.
    fn sees(&self, _: Step, word: String) -> String {
        word
    }
}

/// Two vouchers, and what happens to them.
#[derive(Debug, Clone)]
pub struct Life {
    pub terms: [Terms; 2],
    pub steps: Vec<Step>,
}

const MINUTE: Seconds = 60;
const HOUR: Seconds = 3_600;

/// A voucher that is on sale, or will be, or is drawn.
fn terms() -> impl Strategy<Value = Terms> {
    let kinds = prop_oneof![
        4 => Just((false, None, -HOUR)),
        3 => Just((true, None, -HOUR)),
        1 => Just((false, None, 10 * MINUTE)),
        2 => Just((true, Some(20 * MINUTE), -HOUR)),
    ];
    (prop_oneof![1 => Just(0_i64), 4 => 1..4_i64], prop::bool::weighted(0.8), kinds).prop_map(
        |(stock, is_priced, (has_line, draw, begin))| Terms {
            stock,
            is_priced,
            has_line,
            begin,
            end: 5 * HOUR,
            draw,
        },
    )
}

/// The names of orders are those of the first few, so that steps meet. A name beyond the last order is that of an earlier one.
pub fn step() -> impl Strategy<Value = Step> {
    let (buyer, nth) = (1..4_i64, 0..4_usize);
    let sale = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    let number = || prop_oneof![4 => Just(1), 1 => Just(2)];
    let amount =
        prop_oneof![5 => Just(Amount::Asked), 1 => Just(Amount::Less), 1 => Just(Amount::Twice)];
    let money = (0..3_u8, amount).prop_map(|(name, amount)| Money(name, amount));
    let by = prop_oneof![Just(By::Gateway), Just(By::ChargeBack)];
    let theirs = prop::option::weighted(0.5, 1..3_u8);
    let named =
        prop_oneof![2 => (1..3).prop_map(Name::Ours), 1 => (1..3_u8).prop_map(Name::Theirs)];
    // A refund that failed has a name.
    let part = prop_oneof![
        2 => named.prop_map(|name| (By::Gateway, Some(name))),
        1 => theirs.clone().prop_map(|name| (By::ChargeBack, name.map(Name::Theirs))),
    ];
    let said = prop_oneof![3 => money.clone().prop_map(Said::Paid), 1 => Just(Said::Failed)];
    let who = prop_oneof![2 => Just(Who::Buyer), 1 => Just(Who::Administrator)];
    let more = prop_oneof![Just(-1), Just(1), Just(2)];
    let pass =
        [1, 2, MINUTE - 1, MINUTE, 15 * MINUTE - 1, 15 * MINUTE, 20 * MINUTE, HOUR, 5 * HOUR];
    prop_oneof![
        12 => (buyer.clone(), sale.clone()).prop_map(|(buyer, sale)| Step::Buy(buyer, sale)),
        3 => nth.clone().prop_map(Step::BuyAgain),
        10 => nth.clone().prop_map(Step::Open),
        12 => (nth.clone(), number(), money.clone()).prop_map(|(nth, number, money)| Step::Took(nth, number, money)),
        2 => (nth.clone(), number()).prop_map(|(nth, number)| Step::Failed(nth, number)),
        7 => (nth.clone(), number(), money.clone(), by, theirs)
            .prop_map(|(nth, number, money, by, theirs)| Step::GaveBack(nth, number, money, by, theirs)),
        6 => (nth.clone(), number(), money, part)
            .prop_map(|(nth, number, money, (by, name))| Step::CameAgain(nth, number, money, by, name)),
        6 => (nth.clone(), who).prop_map(|(nth, who)| Step::Cancel(nth, who)),
        4 => nth.clone().prop_map(Step::Redeem),
        5 => nth.clone().prop_map(Step::Refund),
        2 => nth.clone().prop_map(Step::Settle),
        4 => (nth, said).prop_map(|(nth, said)| Step::Says(nth, said)),
        8 => Just(Step::Expire),
        4 => Just(Step::Gateway),
        2 => (sale.clone(), any::<bool>()).prop_map(|(sale, is_paused)| Step::Pause(sale, is_paused)),
        3 => (sale.clone(), more).prop_map(|(sale, more)| Step::Restock(sale, more)),
        1 => sale.clone().prop_map(Step::CancelSale),
        1 => Just(Step::WindUp),
        8 => (buyer.clone(), sale.clone()).prop_map(|(buyer, sale)| Step::Enter(buyer, sale)),
        2 => (buyer, sale).prop_map(|(buyer, sale)| Step::Leave(buyer, sale)),
        5 => Just(Step::Serve),
        6 => prop::sample::select(pass.to_vec()).prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

pub fn lives() -> impl Strategy<Value = Life> {
    ([terms(), terms()], vec(step(), 1..40)).prop_map(|(terms, steps)| Life { terms, steps })
}

/// The workers' steps before the last audit.
const WORKERS: [Step; 7] = [
    Step::WindUp,
    Step::Expire,
    Step::Gateway,
    Step::Expire,
    Step::Serve,
    Step::Gateway,
    Step::Serve,
];

/// Takes the steps. `Ok(false)`: the machine was too busy to say what became of one of them.
///
/// # Errors
/// What differs from the model.
pub async fn live(driver: &mut impl Driver, world: &World, life: &Life) -> Result<bool, String> {
    let case = Case::new(world, life.terms).await;
    let mut shop = Shop::new(life.terms);
    let mut before = case.read().await;
    let mut revisions = case.revisions();
    for (number, step) in life.steps.iter().chain(&WORKERS).enumerate() {
        let step = &step.of_one_of(shop.orders.len());
        let differs = |of: &str, said: String, should: String| {
            format!("step {number}, {step:?}: {of}\n  is        {said}\n  should be {should}")
        };
        // Whom a draw finds is known after it. It answers nothing.
        let is_serving = *step == Step::Serve;
        let none = Default::default();
        let expected = if is_serving { String::new() } else { shop.take(*step, &none) };
        if expected == "nothing" {
            continue;
        }
        let expected = driver.sees(*step, expected);
        let Some(said) = driver.take(&case, *step, &expected).await else { return Ok(false) };
        let is = case.read().await;
        if is_serving {
            shop.take(*step, &case.lots().await);
        }
        if said != expected {
            return Err(differs("the answer", said, expected));
        }
        for sale in 0..2 {
            let (then, now) = (&before.vouchers[sale], &is.vouchers[sale]);
            let more = |it: &Voucher| (it.is_paused, it.is_cancelled, it.initial);
            // Whom nothing is held for changes nothing of what can be bought.
            let is_another_line =
                now.held_for != then.held_for && (now.stock > 0 || then.stock > 0);
            let is_more_than_a_sale =
                now.stock > then.stock || more(now) != more(then) || is_another_line;
            if is_more_than_a_sale && case.revisions()[sale] <= revisions[sale] {
                let later = "a later one".to_owned();
                return Err(differs("the revision", format!("{revisions:?}"), later));
            }
        }
        revisions = case.revisions();
        let should = shop.clone().sorted();
        if is != should {
            return Err(differs("the shop", format!("{is:?}"), format!("{should:?}")));
        }
        let is_last = number + 1 == life.steps.len() + WORKERS.len();
        for sale in 0..2 {
            if !is_last && before.of(sale) == is.of(sale) {
                continue;
            }
            if let Some(wrong) = case.wrong_audit(&shop, sale, is_last).await {
                return Err(format!("step {number}, {step:?}: the audit says {wrong}"));
            }
        }
        before = is;
    }
    Ok(true)
}

pub async fn pass(world: &World, seconds: Seconds) {
    world.set_time(world.clock.now() + TimeDelta::seconds(seconds)).await;
}

/// What a store answers. `None`: a machine that is busy was late, and nobody knows what became of it.
pub fn known<T>(answer: Result<T, StoreError>) -> Option<T> {
    answer.inspect_err(|error| assert!(error.retry_may_help(), "{error}")).ok()
}

/// Ends the orders of sales that were cancelled.
pub async fn wind_up(case: &Case<'_>) -> Option<()> {
    let work = WindingUp::new(case.world.database.clone());
    for voucher in case.vouchers {
        let cancelled = sqlx::query_scalar(
            "select cancelled_at is not null from seckill_vouchers where voucher_id = $1",
        );
        if cancelled.bind(voucher.get()).fetch_one(case.pool()).await.unwrap() {
            while !known(work.step(voucher).await)?.is_complete {}
        }
    }
    Some(())
}

/// With the three buyers.
pub async fn world() -> World {
    let world = World::new().await;
    world.users(3).await;
    world
}

/// Makes so many random values of this seed.
pub fn runner(cases: u32, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Runs `cases` random lives of `seed`.
pub fn run<D: Driver>(cases: u32, seed: u64, start: impl AsyncFnOnce(&World) -> D) {
    let runtime = Runtime::new().unwrap();
    let (world, driver) = runtime.block_on(async {
        let world = world().await;
        let driver = start(&world).await;
        (world, RefCell::new(driver))
    });
    let (lived, given_up) = (Cell::new(0), Cell::new(0));
    let outcome = runner(cases, seed).run(&lives(), |life| {
        let answer = runtime.block_on(live(&mut *driver.borrow_mut(), &world, &life));
        let count = if answer == Ok(false) { &given_up } else { &lived };
        count.set(count.get() + 1);
        answer.map(drop).map_err(TestCaseError::fail)
    });
    println!("seed {seed}: {} lives, {} that a busy machine ended", lived.get(), given_up.get());
    if let Err(TestError::Fail(why, life)) = outcome {
        panic!("seed {seed}: {why}\nthe smallest life that fails: {life:?}");
    }
    assert!(10 * given_up.get() <= lived.get(), "the machine is too busy");
}

//! One table of purchases, which every door must keep: the database's function, batches of orders, the service with
//! each strategy on one node, on two and on mixed ones, and HTTP by both of its ways.

use std::collections::HashMap;

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::{Clock, OrderId, VoucherId};
use seckill::purchase::Strategy::{GroupCommit, GroupCommitUnlocked, Locked};
use seckill::purchase::audit;
use seckill::store::orders;

use crate::purchase::doors::{Door, Kind};
use crate::purchase::shops::{change_sale, no_lock};
use testkit::shop::world::{World, midnight, user};
use testkit::wait::eventually;

/// What happens, one thing after the other. Users are numbers; times are microseconds since midnight.
#[derive(Debug)]
enum Step {
    /// The voucher is put on sale with this stock, from one time to another.
    OnSale(i32, i64, i64),
    At(i64),
    /// An administrator changes the sale.
    Change(&'static str),
    /// New processes, which remember nothing.
    Restart,
    /// The user is told this.
    Buy(i64, &'static str),
    /// The same once the server knows: what it remembers may be a second old.
    Soon(i64, &'static str),
    /// Users 1 to this, all at once, with so many attempts each. So many get an order, and all other attempts are told
    /// one of these.
    Crowd(i64, usize, usize, &'static [&'static str]),
}
use Step::{At, Buy, Change, Crowd, OnSale, Restart, Soon};

/// Its name, what is done to a voucher, and the orders and the stock in its books afterwards.
struct Case(&'static str, &'static [Step], i64, i64);

/// What is told to an owner, or of another attempt of the same user.
const OWN: &[&str] = &["already_bought", "order_in_progress"];
const NONE: &[&str] = &["sold_out", "order_in_progress"];
const OWN_OR_NONE: &[&str] = &["already_bought", "sold_out"];
const ALL: &[&str] = &["sold_out", "already_bought", "order_in_progress"];

const HOUR: i64 = 3_600_000_000;
const ONE_MORE: &str = "stock = stock + 1, initial_stock = initial_stock + 1";

const fn on_sale(stock: i32) -> Step {
    OnSale(stock, -HOUR, 23 * HOUR)
}

const CASES: &[Case] = &[
    Case(
        "fifty buyers with four attempts each get exactly the twenty there are",
        &[on_sale(20), Crowd(50, 4, 20, ALL)],
        20,
        0,
    ),
    Case(
        "one user fifty times at once gets one order, and nothing leaks",
        &[on_sale(50), Crowd(1, 50, 1, OWN), Buy(1, "already_bought")],
        1,
        49,
    ),
    Case(
        "one user twenty times at once gets the last one, and is never told that there is none",
        &[on_sale(1), Crowd(1, 20, 1, OWN), Buy(2, "sold_out")],
        1,
        0,
    ),
    Case("of none nothing is sold", &[on_sale(0), Crowd(10, 3, 0, NONE)], 0, 0),
    Case(
        "while stock is left nobody is told that there is none",
        &[on_sale(30), Crowd(10, 3, 10, OWN)],
        10,
        20,
    ),
    Case(
        "a voucher that is not there is not sold, and one that appears is",
        &[Buy(1, "voucher_not_found"), Buy(2, "voucher_not_found"), on_sale(1), Soon(1, "ordered")],
        1,
        0,
    ),
    Case(
        "sold out is remembered until there is more",
        &[
            on_sale(1),
            Buy(1, "ordered"),
            Buy(2, "sold_out"),
            Change(ONE_MORE),
            Soon(2, "ordered"),
            Buy(1, "already_bought"),
            Buy(3, "sold_out"),
        ],
        2,
        0,
    ),
    Case(
        "nothing is sold during a pause, and owners are told of their orders",
        &[
            on_sale(5),
            Change("paused = true"),
            Buy(1, "sale_paused"),
            Change("paused = false"),
            Soon(1, "ordered"),
            Change("paused = true"),
            Soon(2, "sale_paused"),
            Buy(1, "already_bought"),
        ],
        1,
        4,
    ),
    Case(
        "a hundred owners ask again after the sell-out: the other node, and new ones",
        &[
            on_sale(100),
            Crowd(100, 1, 100, &[]),
            Crowd(101, 1, 0, OWN_OR_NONE),
            Restart,
            Buy(101, "sold_out"),
            Crowd(101, 1, 0, OWN_OR_NONE),
        ],
        100,
        0,
    ),
    // The last: the clock goes back for none that follows.
    Case(
        "a sale begins and ends to the microsecond, and an owner is one whenever it is",
        &[
            OnSale(50, HOUR, 2 * HOUR),
            At(HOUR - 1),
            Buy(1, "sale_not_started"),
            At(HOUR),
            Buy(1, "ordered"),
            At(2 * HOUR - 1),
            Buy(2, "ordered"),
            At(2 * HOUR),
            Buy(3, "sale_ended"),
            Restart,
            Buy(1, "already_bought"),
            Buy(2, "already_bought"),
            At(2 * HOUR + 1),
            Buy(3, "sale_ended"),
            Change(
                "begin_time = begin_time + interval '2 hours', end_time = end_time + interval '2 hours'",
            ),
            Restart,
            Buy(2, "already_bought"),
            Buy(3, "sale_not_started"),
            // As it was, for the books.
            Change(
                "begin_time = begin_time - interval '2 hours', end_time = end_time - interval '2 hours'",
            ),
        ],
        2,
        48,
    ),
];

/// All cases at one door, in one world.
async fn every_case(kind: Kind) {
    println!("{kind:?}");
    let world = World::with(|settings| settings.strategy = kind.strategy()).await;
    world.users(101).await;
    world.wait_long_for_rows().await;
    let mut door = Door::new(world, kind).await;
    for (number, Case(name, steps, orders, stock)) in (1..).zip(CASES) {
        println!("{name}");
        door.voucher = VoucherId::new(number).unwrap();
        door.world().set_time(midnight()).await;
        for step in *steps {
            take(&mut door, step).await;
        }
        let pool = door.world().database.pool();
        let audit = audit::run(pool, Some(door.voucher)).await.unwrap().remove(0);
        let books = (audit.holds, audit.orders, audit.stock);
        assert_eq!(books, (true, *orders, *stock), "{audit:?}");
        door.restart().await;
        assert!(no_lock(door.world(), 101).await, "a lock outlives its node");
    }
}

async fn take(door: &mut Door, step: &Step) {
    let time = |micros: i64| midnight() + TimeDelta::microseconds(micros);
    match *step {
        OnSale(stock, begin, end) => {
            let voucher = door.world().voucher_between(stock, time(begin), time(end)).await;
            assert_eq!(voucher.id, door.voucher, "a case has one voucher, the next of its world");
        }
        At(now) => door.world().set_time(time(now)).await,
        Change(what) => change_sale(door.world(), door.voucher, what).await,
        Restart => door.restart().await,
        Buy(number, code) => {
            let told = door.buy(number, 0).await;
            assert_eq!(told.code, code, "user {number}: {told:?}");
            // Whatever the node's memory says of the time, it is the sale's.
            if let Some(begin) = told.begin_time {
                assert!([time(HOUR), time(3 * HOUR)].contains(&begin), "{told:?}");
            }
            if let Some(id) = told.order {
                assert_is_kept(door, number, id, code == "ordered").await;
            }
            door.says_so_in_both_languages(number, code).await;
        }
        Soon(number, code) => {
            eventually(code, async || door.buy(number, 0).await.code == code).await;
        }
        Crowd(users, attempts, ordered, others) => {
            crowd(door, users, attempts, ordered, others).await;
        }
    }
}

/// The order that a buyer was told of is in the database, and a new one is of this moment.
async fn assert_is_kept(door: &Door, number: i64, id: OrderId, is_new: bool) {
    let pool = door.world().database.pool();
    let kept = orders::find_of_voucher(pool, door.voucher, id).await.unwrap().unwrap();
    assert_eq!(kept.user_id, user(number));
    if is_new {
        assert_eq!(kept.created_at, door.world().clock.now());
    }
}

/// The orders of the voucher by their owners.
async fn owners(door: &Door) -> HashMap<i64, i64> {
    let query = sqlx::query_as("select user_id, id from orders where voucher_id = $1");
    let all: Vec<(i64, i64)> =
        query.bind(door.voucher.get()).fetch_all(door.world().database.pool()).await.unwrap();
    let count = all.len();
    let owners: HashMap<i64, i64> = all.into_iter().collect();
    assert_eq!(owners.len(), count, "a user has two orders");
    owners
}

async fn crowd(door: &mut Door, users: i64, attempts: usize, ordered: usize, others: &[&str]) {
    let before = owners(door).await;
    door.turn += 1;
    let all = (0..attempts).flat_map(|attempt| (1..=users).map(move |number| (number, attempt)));
    let door: &Door = door;
    let told =
        join_all(all.map(async |(number, attempt)| (number, door.buy(number, attempt).await)))
            .await;
    let after = owners(door).await;
    let mut codes = HashMap::<&str, usize>::new();
    for (number, told) in &told {
        *codes.entry(&told.code).or_default() += 1;
        match &*told.code {
            "ordered" => assert!(!before.contains_key(number), "{number} twice"),
            code => assert!(others.contains(&code), "{number}: {told:?}"),
        }
        // Whoever is told of an order is told of the one that is kept, and no owner is told anything else.
        assert!(told.code != "sold_out" || !before.contains_key(number), "{number}: {told:?}");
        if let Some(id) = told.order {
            assert_eq!(after.get(number), Some(&id.get()), "{number}: {told:?}");
        }
    }
    assert_eq!(codes.get("ordered").copied().unwrap_or_default(), ordered, "{codes:?}");
    assert_eq!(after.len() - before.len(), ordered, "{codes:?}");
    assert_eq!(codes.contains_key("sold_out"), others.contains(&"sold_out"), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_at_the_databases_function_past_every_lock_and_memory() {
    every_case(Kind::Calls).await;
}

/// On a runtime of one thread a whole crowd is submitted before its batch begins.
#[tokio::test]
async fn every_case_with_a_crowd_in_one_batch() {
    every_case(Kind::Batches).await;
    every_case(Kind::Service(&[GroupCommitUnlocked])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_with_each_strategy() {
    for nodes in [&[Locked], &[GroupCommit], &[GroupCommitUnlocked]] {
        every_case(Kind::Service(nodes)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_at_two_nodes_of_each_strategy() {
    for nodes in [&[Locked; 2], &[GroupCommit; 2], &[GroupCommitUnlocked; 2]] {
        every_case(Kind::Service(nodes)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_at_nodes_of_all_strategies_side_by_side() {
    let nodes = &[Locked, GroupCommit, GroupCommitUnlocked, GroupCommit, GroupCommitUnlocked];
    every_case(Kind::Service(nodes)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_over_http_by_both_of_its_ways() {
    every_case(Kind::Http).await;
}

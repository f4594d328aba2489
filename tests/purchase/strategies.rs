//! The purchase service: nobody is sold what does not exist, nobody buys twice, and
//! everybody hears the truth.

#[allow(unused_imports)]
use crate::worlds::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use chrono::TimeDelta;
use futures_util::future::join_all;
use group_commit::Limits;
use seckill::model::{Order, OrderId, Outcome, Refusal, UserId, VoucherId};
use seckill::purchase::sales::Sales;
use seckill::purchase::{PurchaseError, Purchases, PurchasesOptions};
use seckill::store::{DatabaseClock, NewOrder, OrderWriter, Placement, orders};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::purchase::place_orders::ORDERED;
use testkit::shop::world::{World, each_strategy, midnight, user};
use testkit::wait::eventually;

#[easy_ext::ext(PurchaseWorld)]
pub impl World {
    async fn shop(&self) -> Arc<Purchases> {
        self.purchases(self.options()).await
    }

    /// Whether any of users 1 to `users` holds the lock of purchases.
    async fn any_lock(&self, users: i64) -> bool {
        let mut command = redis::cmd("EXISTS");
        for number in 1..=users {
            command.arg(self.keys.order_lock(user(number)));
        }
        self.redis.query::<i64>(&command).await.unwrap() > 0
    }

    async fn restock(&self, voucher: VoucherId, more: i32) {
        let done = sqlx::query(
            "update seckill_vouchers
             set stock = stock + $2, initial_stock = initial_stock + $2, revision = revision + 1
             where voucher_id = $1",
        )
        .bind(voucher.get())
        .bind(more)
        .execute(self.database.pool())
        .await
        .unwrap();
        assert_eq!(done.rows_affected(), 1);
    }
}

type Answer = Result<Outcome, PurchaseError>;

/// Every user's attempts, all at once, spread over the shops. By outcome, and the orders.
pub async fn rush(
    shops: &[Arc<Purchases>],
    voucher: VoucherId,
    users: i64,
    attempts: usize,
) -> (BTreeMap<&'static str, usize>, Vec<Order>) {
    let mut tasks: JoinSet<Answer> = JoinSet::new();
    for attempt in 0..attempts {
        for number in 1..=users {
            let shop = Arc::clone(&shops[(number as usize + attempt) % shops.len()]);
            tasks.spawn(async move { shop.buy(user(number), voucher).await });
        }
    }
    let (mut codes, mut orders) = (BTreeMap::new(), Vec::new());
    for outcome in tasks.join_all().await.into_iter().map(Result::unwrap) {
        *codes.entry(outcome.code()).or_default() += 1;
        if let Outcome::Ordered(order) = outcome {
            orders.push(order);
        }
    }
    (codes, orders)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_buyers_with_four_attempts_each_get_exactly_the_twenty_there_are() {
    each_strategy(async |world| {
        world.users(50).await;
        let voucher = world.voucher(20).await;
        let shop = world.shop().await;
        let (codes, sold) = rush(&[Arc::clone(&shop)], voucher.id, 50, 4).await;
        let allowed = ["ordered", "sold_out", "already_bought", "order_in_progress"];
        assert!(codes.keys().all(|code| allowed.contains(code)), "{codes:?}");
        assert_eq!(codes["ordered"], 20, "{codes:?}");
        assert_eq!(sold.iter().map(|order| order.user_id).collect::<HashSet<_>>().len(), 20);
        for order in &sold {
            let kept =
                orders::find(world.database.pool(), order.id.into(), None).await.unwrap().order();
            assert_eq!(kept.as_ref(), Some(order), "what the buyer was told is what is kept");
        }
        let audit = world.audit().await;
        assert!(audit.holds, "{audit:?}");
        assert_eq!((audit.orders, audit.stock), (20, 0));
        shop.shutdown().await;
        assert!(!world.any_lock(50).await);
    })
    .await;
}

/// A process that has just started knows no voucher, and its whole crowd waits for one read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_at_a_process_that_has_just_started_is_sold_to() {
    let world = World::new().await;
    world.users(1_000).await;
    let voucher = world.voucher(1).await;
    let shop = world.shop().await;
    let (codes, sold) = rush(&[Arc::clone(&shop)], voucher.id, 1_000, 1).await;
    assert_eq!(sold.len(), 1);
    assert_eq!(codes, BTreeMap::from([("ordered", 1), ("sold_out", 999)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_on_one_database_sell_what_one_would() {
    each_strategy(async |world| {
        world.users(50).await;
        let voucher = world.voucher(20).await;
        let shops = [world.shop().await, world.shop().await];
        let (codes, sold) = rush(&shops, voucher.id, 50, 4).await;
        assert_eq!((codes["ordered"], sold.len()), (20, 20), "{codes:?}");
        let audit = world.audit().await;
        assert!(audit.holds && audit.stock == 0, "{audit:?}");
        for shop in shops {
            shop.shutdown().await;
        }
        assert!(!world.any_lock(50).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_user_fifty_times_at_once_gets_one_order() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(50).await;
        let shop = world.shop().await;
        let (codes, sold) = rush(&[Arc::clone(&shop)], voucher.id, 1, 50).await;
        assert_eq!(codes["ordered"], 1, "{codes:?}");
        let allowed = ["ordered", "already_bought", "order_in_progress"];
        assert!(codes.keys().all(|code| allowed.contains(code)), "{codes:?}");
        let again = shop.buy(user(1), voucher.id).await.unwrap();
        let order_id = sold[0].id;
        assert_eq!(again, Outcome::Refused(Refusal::AlreadyBought { order_id }));
        let audit = world.audit().await;
        assert!(audit.holds && audit.stock == 49, "{audit:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_stock_one_and_more_than_there_are_users() {
    for (stock, sold) in [(0, 0), (1, 1), (30, 10)] {
        each_strategy(async |world| {
            world.users(10).await;
            let voucher = world.voucher(stock).await;
            let (codes, orders) = rush(&[world.shop().await], voucher.id, 10, 3).await;
            assert_eq!(orders.len(), sold, "{codes:?}");
            // While stock remains nobody is told that there is none.
            assert_eq!(codes.contains_key("sold_out"), stock < 10, "{codes:?}");
            let audit = world.audit().await;
            assert!(audit.holds && audit.orders == sold as i64, "{audit:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_sale_begins_and_ends_to_the_microsecond() {
    each_strategy(async |world| {
        world.users(4).await;
        let (begin_time, end_time) =
            (midnight() + TimeDelta::hours(1), midnight() + TimeDelta::hours(2));
        let voucher = world.voucher_between(10, begin_time, end_time).await;
        let shop = world.shop().await;
        let microsecond = TimeDelta::microseconds(1);
        world.set_time(begin_time - microsecond).await;
        let early = shop.buy(user(1), voucher.id).await.unwrap();
        assert_eq!(early, Outcome::Refused(Refusal::SaleNotStarted { begin_time }));
        for (number, now) in [(1, begin_time), (2, end_time - microsecond)] {
            world.set_time(now).await;
            let Outcome::Ordered(order) = shop.buy(user(number), voucher.id).await.unwrap() else {
                panic!("the sale is on at {now}");
            };
            assert_eq!((order.created_at, order.user_id), (now, user(number)));
        }
        for late in [end_time, end_time + microsecond] {
            world.set_time(late).await;
            let late = shop.buy(user(3), voucher.id).await.unwrap();
            assert_eq!(late, Outcome::Refused(Refusal::SaleEnded));
        }
        assert_eq!(world.audit().await.orders, 2);
    })
    .await;
}

#[tokio::test]
async fn a_voucher_that_is_not_there_is_not_sold_and_one_that_appears_is() {
    each_strategy(async |world| {
        world.users(2).await;
        let shop = world.shop().await;
        let next = VoucherId::new(1).unwrap();
        for unknown in [next, VoucherId::new(i64::MAX).unwrap()] {
            let answer = shop.buy(user(1), unknown).await.unwrap();
            assert_eq!(answer, Outcome::Refused(Refusal::VoucherNotFound));
        }
        assert_eq!(world.voucher(1).await.id, next);
        eventually("the new voucher is sold", async || {
            matches!(shop.buy(user(1), next).await.unwrap(), Outcome::Ordered(_))
        })
        .await;
        assert!(!world.any_lock(2).await);
    })
    .await;
}

#[tokio::test]
async fn sold_out_is_remembered_until_there_is_more() {
    each_strategy(async |world| {
        world.users(10).await;
        let voucher = world.voucher(1).await;
        let shop = world.shop().await;
        assert_eq!(shop.buy(user(1), voucher.id).await.unwrap().code(), "ordered");
        assert_eq!(shop.buy(user(2), voucher.id).await.unwrap().code(), "sold_out");
        world.restock(voucher.id, 1).await;
        eventually("the restocked voucher is sold", async || {
            shop.buy(user(2), voucher.id).await.unwrap().code() == "ordered"
        })
        .await;
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 2, "{audit:?}");
    })
    .await;
}

/// Requests that miss together are one query; and what is read is read anew within a second.
#[tokio::test]
async fn sales_are_read_together_and_read_anew() {
    let world = World::new().await;
    let (one, other) = (world.voucher(1).await.id, world.voucher(2).await.id);
    let gone = VoucherId::new(999).unwrap();
    let sales = Sales::new(&world.database, &Arc::new(DatabaseClock::new(world.clock.clone())));
    let ids = [one, other, one, gone, other];
    let found = join_all(ids.iter().map(|id| sales.find(*id))).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    let of = |place: usize| found[place].as_ref().unwrap();
    assert_eq!((of(0).voucher.id, of(1).voucher.stock), (one, 2));
    assert!(Arc::ptr_eq(of(0), of(2)) && Arc::ptr_eq(of(1), of(4)));
    assert!(found[3].is_none());
    world.restock(one, 5).await;
    eventually("memory has read it anew", async || {
        sales.find(one).await.unwrap().unwrap().voucher.stock == 6
    })
    .await;
}

/// From memory: the database has no order any more, and is not asked. Then it is.
#[tokio::test]
async fn a_buyer_hears_of_the_order_from_memory_and_is_forgotten_within_a_second() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        // A machine that is busy may take longer than the memory lasts: then once more.
        eventually("memory refuses", async || {
            let Outcome::Ordered(order) = shop.buy(user(1), voucher.id).await.unwrap() else {
                return false;
            };
            sqlx::query("delete from orders").execute(world.database.pool()).await.unwrap();
            let again = Outcome::Refused(Refusal::AlreadyBought { order_id: order.id });
            let refused = shop.buy(user(1), voucher.id).await.unwrap() == again;
            sqlx::query("delete from orders").execute(world.database.pool()).await.unwrap();
            refused
        })
        .await;
        eventually("the order is forgotten", async || {
            shop.buy(user(1), voucher.id).await.unwrap().code() == "ordered"
        })
        .await;
    })
    .await;
}

/// The database refuses the second attempt, and memory the third.
#[tokio::test]
async fn a_buyer_whom_the_database_has_refused_is_refused_by_memory() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        eventually("memory refuses", async || {
            let elsewhere = world.shop().await;
            let bought = elsewhere.buy(user(1), voucher.id).await.unwrap();
            let Outcome::Ordered(order) = bought else { panic!("{bought:?}") };
            let again = Outcome::Refused(Refusal::AlreadyBought { order_id: order.id });
            let by_the_database = shop.buy(user(1), voucher.id).await.unwrap();
            sqlx::query("delete from orders").execute(world.database.pool()).await.unwrap();
            // A machine that is busy may take longer than the memory lasts: then once more.
            let by_memory = shop.buy(user(1), voucher.id).await.unwrap();
            sqlx::query("delete from orders").execute(world.database.pool()).await.unwrap();
            by_the_database == again && by_memory == again
        })
        .await;
    })
    .await;
}

/// On a runtime of one thread all are asked before any of them gets on.
#[tokio::test]
async fn more_than_may_be_under_way_are_refused_at_once() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(20).await;
        let shop = world.purchases(PurchasesOptions { burst: 1, ..world.options() }).await;
        shop.sale(voucher.id).await.unwrap();
        let answers = join_all((1..=20).map(|number| shop.buy(user(number), voucher.id))).await;
        let ordered = answers.iter().filter(|answer| matches!(answer, Ok(Outcome::Ordered(_))));
        assert_eq!(ordered.count(), 1);
        let overloaded = |answer: &&Answer| matches!(answer, Err(PurchaseError::Overloaded));
        assert_eq!(answers.iter().filter(overloaded).count(), 19);
        // The place is free again.
        let Outcome::Ordered(_) = shop.buy(user(20), voucher.id).await.unwrap() else { panic!() };
        assert!(world.audit().await.holds);
    })
    .await;
}

/// One call for each order, by a writer of its own, past every lock, all at the same moment.
async fn place_at_once(
    world: &World,
    purchases: Vec<(UserId, VoucherId)>,
) -> Vec<(OrderId, Placement)> {
    let start = Arc::new(Barrier::new(purchases.len()));
    let limits = Limits { batch: 1, waiting: 1, leaders: 1 };
    let mut tasks = JoinSet::new();
    for (number, (user, voucher)) in (1..).zip(purchases) {
        let (database, start) = (world.database.clone(), Arc::clone(&start));
        tasks.spawn(async move {
            let writer = OrderWriter::new(database, limits);
            let id = OrderId::new(number).unwrap();
            let at = midnight();
            start.wait().await;
            (id, writer.place(voucher, NewOrder { id, user, at }).await.unwrap())
        });
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_database_alone_sells_one_user_one_and_takes_one_from_the_stock() {
    let world = World::new().await;
    world.users(1).await;
    for stock in [10, 1] {
        let voucher = world.voucher(stock).await;
        let placed = place_at_once(&world, vec![(user(1), voucher.id); 20]).await;
        let won: Vec<_> = placed.iter().filter(|(_, placed)| *placed == ORDERED).collect();
        let [(winner, _)] = won.as_slice() else { panic!("{placed:?}") };
        let others = placed.iter().filter(|(_, one)| *one == Placement::AlreadyBought(*winner));
        assert_eq!(others.count(), 19, "{placed:?}");
        let left = world.audit().await;
        // Stock that a duplicate took came back with it: nothing leaks.
        assert!(left.holds && left.stock == i64::from(stock) - 1, "{left:?}");
        sqlx::raw_sql("delete from orders; delete from seckill_vouchers")
            .execute(world.database.pool())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_database_alone_never_sells_more_than_there_is() {
    let world = World::new().await;
    world.users(20).await;
    let voucher = world.voucher(5).await;
    let buyers = (1..=20).map(|number| (user(number), voucher.id)).collect();
    let placed = place_at_once(&world, buyers).await;
    let count = |wanted: Placement| placed.iter().filter(|(_, one)| *one == wanted).count();
    assert_eq!(count(ORDERED), 5, "{placed:?}");
    assert_eq!(count(Placement::SoldOut), 15, "{placed:?}");
    assert!(world.audit().await.holds);
    let nothing = VoucherId::new(9_999).unwrap();
    let placed = place_at_once(&world, vec![(user(1), nothing)]).await;
    assert_eq!(placed[0].1, Placement::VoucherNotFound);
}

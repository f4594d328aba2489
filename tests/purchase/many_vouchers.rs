//! Orders of many vouchers in one transaction: what becomes of each, beside rows that are held, sales that are not on,
//! servers whose batches overlap, and connections that end half-way.

#[allow(unused_imports)]
use crate::worlds::*;

use chrono::TimeDelta;
use faults::Fault;
use futures_util::future::join_all;
use group_commit::Limits;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use seckill::model::{OrderId, VoucherId};
use seckill::store::{Database, NewOrder, OrderWriter, Placement, StoreError};
use sqlx::{AssertSqlSafe, Connection};
use testkit::shop::world::{World, midnight, user};
use testkit::wait::eventually;

use super::group_commit_faults::GroupCommitFaultsWorld as _;
use super::place_orders::ORDERED;

fn writer(database: &Database) -> OrderWriter {
    OrderWriter::new(database.clone(), Limits::batches_of(256), false)
}

/// An order with the id of its buyer.
fn order(voucher: VoucherId, buyer: i64) -> (VoucherId, NewOrder) {
    let at = midnight() + TimeDelta::microseconds(buyer);
    (voucher, NewOrder { id: OrderId::new(buyer).unwrap(), user: user(buyer), at })
}

/// Places all in one batch: the leader is a task, and runs when all are submitted. So the runtime must have one thread.
async fn try_place(
    writer: &OrderWriter,
    orders: &[(VoucherId, NewOrder)],
) -> Vec<Result<Placement, StoreError>> {
    join_all(orders.iter().map(|(voucher, order)| writer.place(*voucher, *order))).await
}

async fn place(writer: &OrderWriter, orders: &[(VoucherId, NewOrder)]) -> Vec<Placement> {
    try_place(writer, orders).await.into_iter().map(Result::unwrap).collect()
}

#[easy_ext::ext(ManyVouchersWorld)]
impl World {
    async fn many(&self, count: usize, stock: i32) -> Vec<VoucherId> {
        let mut vouchers = Vec::new();
        for _ in 0..count {
            vouchers.push(self.voucher(stock).await.id);
        }
        vouchers
    }

    async fn run(&self, statement: String) {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(self.database.pool()).await.unwrap();
    }

    async fn transactions(&self) -> i64 {
        sqlx::query_scalar("select count(distinct xmin::text) from orders")
            .fetch_one(self.database.pool())
            .await
            .unwrap()
    }

    /// Whether the books of all vouchers hold; how many orders there are.
    async fn orders_in_good_books(&self) -> i64 {
        let audits = seckill::purchase::audit::run(self.database.pool(), None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
        audits.iter().map(|audit| audit.orders).sum()
    }
}

/// Free ones and one with a price, one that is paused, one that has ended, one that has not begun, one that is sold out, one that
/// has two for three, one that there is not, and a buyer who has bought already. All in one transaction.
#[tokio::test]
async fn each_voucher_of_a_batch_is_judged_by_itself() {
    let world = World::new().await;
    world.users(40).await;
    let priced = world.priced_voucher(9).await;
    let [free, paused, ended, early, none, two, bought] = world.many(7, 2).await[..] else {
        unreachable!("there are seven")
    };
    let unknown = VoucherId::new(99_999).unwrap();
    let writer = writer(&world.database);
    assert_eq!(place(&writer, &[order(bought, 30)]).await, [ORDERED]);
    for (voucher, change) in [
        (paused, "paused = true"),
        (ended, "end_time = sale_time()"),
        (early, "begin_time = sale_time() + interval '1 s'"),
        (none, "stock = 0, initial_stock = 0"),
    ] {
        world
            .run(format!("update seckill_vouchers set {change} where voucher_id = {voucher}"))
            .await;
    }
    let again = NewOrder { user: user(30), ..order(bought, 20).1 };
    let all = [
        order(free, 1),
        order(paused, 2),
        order(two, 3),
        order(ended, 4),
        order(priced.id, 5),
        order(two, 6),
        order(early, 7),
        order(none, 8),
        order(two, 9),
        order(unknown, 10),
        (bought, again),
        order(bought, 11),
        order(free, 12),
    ];
    for _ in 0..2 {
        let placed = place(&writer, &all).await;
        let Placement::Ordered(Some(due)) = placed[4] else { panic!("{placed:?}") };
        assert_eq!(due.amount, priced.price);
        let others: Vec<Placement> =
            placed.iter().enumerate().filter(|(place, _)| *place != 4).map(|(_, it)| *it).collect();
        let expected = [
            ORDERED,
            Placement::SalePaused,
            ORDERED,
            Placement::SaleEnded,
            ORDERED,
            Placement::SaleNotStarted,
            Placement::SoldOut,
            Placement::SoldOut,
            Placement::VoucherNotFound,
            Placement::AlreadyBought(OrderId::new(30).unwrap()),
            ORDERED,
            ORDERED,
        ];
        assert_eq!(others, expected);
        // The same again changes nothing: the one before, and all of the batch.
        assert_eq!(world.transactions().await, 2);
    }
    world.run(format!("delete from seckill_vouchers where voucher_id in ({ended}, {early})")).await;
    assert_eq!(world.orders_in_good_books().await, 7);
}

/// Another session holds the rows of two of a thousand vouchers. All others are sold while it does, in a transaction that does
/// not wait for it to end; the buyers of the two hear that nothing was done.
#[tokio::test]
async fn a_row_that_is_held_delays_none_of_a_thousand_other_vouchers() {
    let world = World::new().await;
    world.users(1_000).await;
    world
        .run(
            "insert into vouchers (title, created_at) select 'many', now() from generate_series(1, 1000);
             insert into seckill_vouchers (voucher_id, initial_stock, stock, begin_time, end_time)
             select id, 1, 1, sale_time() - interval '1 h', sale_time() + interval '1 h' from vouchers"
                .to_owned(),
        )
        .await;
    let ids: Vec<i64> = sqlx::query_scalar("select id from vouchers order by id")
        .fetch_all(world.database.pool())
        .await
        .unwrap();
    let vouchers: Vec<VoucherId> = ids.iter().map(|id| VoucherId::new(*id).unwrap()).collect();
    let held = [vouchers[3], vouchers[700]];
    let hold = format!(
        "select from seckill_vouchers where voucher_id in ({}, {}) for update",
        held[0], held[1]
    );
    let holder = world.begin(&hold).await;
    let writer = writer(&world.database);
    let all: Vec<_> =
        vouchers.iter().zip(1..).map(|(voucher, buyer)| order(*voucher, buyer)).collect();
    let told = try_place(&writer, &all).await;
    for ((voucher, _), told) in all.iter().zip(told) {
        match told {
            Ok(placed) => assert!(placed == ORDERED && !held.contains(voucher), "{placed:?}"),
            Err(error) => {
                assert!(held.contains(voucher), "{error:?}");
                assert!(error.retry_may_help() && !error.outcome_unknown(), "{error:?}");
            }
        }
    }
    holder.close().await.unwrap();
    let again = held.map(|voucher| all[usize::try_from(voucher.get() - ids[0]).unwrap()]);
    assert_eq!(place(&writer, &again).await, [ORDERED; 2]);
    assert_eq!(world.orders_in_good_books().await, 1_000);
}

/// Another session locks the table of sales, as a migration may: nobody can buy, all hear that nothing was done, and
/// afterwards they buy.
#[tokio::test]
async fn a_table_that_is_locked_costs_a_batch_of_many_vouchers_no_order() {
    let world = World::new().await;
    world.users(9).await;
    let vouchers = world.many(2, 9).await;
    let holder = world.begin("lock table seckill_vouchers in exclusive mode").await;
    let writer = writer(&world.database);
    let both = [order(vouchers[0], 1), order(vouchers[1], 2)];
    for told in try_place(&writer, &both).await {
        let error = told.unwrap_err();
        assert!(error.retry_may_help() && !error.outcome_unknown(), "{error:?}");
    }
    holder.close().await.unwrap();
    assert_eq!(place(&writer, &both).await, [ORDERED; 2]);
    assert_eq!(world.orders_in_good_books().await, 2);
}

/// While a row is held, its orders are in a call of their own, and each batch after that is the others' alone.
#[tokio::test]
async fn orders_of_a_held_row_are_placed_when_it_is_let_go() {
    let world = World::new().await;
    world.users(20).await;
    world.wait_long_for_rows().await;
    let vouchers = world.many(3, 9).await;
    let hold =
        format!("select from seckill_vouchers where voucher_id = {} for update", vouchers[1]);
    let holder = world.begin(&hold).await;
    let writer = writer(&world.database);
    let waits = async {
        let both = [order(vouchers[1], 1), order(vouchers[1], 2)];
        place(&writer, &both).await
    };
    let others = async {
        world.until_one_waits().await;
        for buyer in 3..9 {
            let both = [order(vouchers[0], buyer), order(vouchers[2], buyer + 6)];
            assert_eq!(place(&writer, &both).await, [ORDERED; 2]);
        }
        holder.close().await.unwrap();
    };
    assert_eq!(tokio::join!(waits, others).0, [ORDERED; 2]);
    assert_eq!(world.orders_in_good_books().await, 14);
}

/// Two servers, each with the same vouchers in an order that the seed says, at once and again: neither waits for the other
/// for ever, and nothing is sold twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_that_overlap_in_any_order_lock_each_other_out_in_none_of_two_thousand() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = World::new().await;
    world.users(10).await;
    let vouchers = world.many(8, 1_000_000).await;
    world
        .run("alter table orders set unlogged; drop index orders_one_live_per_user".to_owned())
        .await;
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    let mut tasks = tokio::task::JoinSet::new();
    for server in 0..4 {
        let (url, vouchers) = (world.database_url.clone(), vouchers.clone());
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(server));
            let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
            sqlx::raw_sql("set synchronous_commit = off").execute(&mut connection).await.unwrap();
            for batch in 0..500 {
                let mut mixed: Vec<i64> = vouchers.iter().map(|voucher| voucher.get()).collect();
                mixed.shuffle(&mut random);
                mixed.truncate(random.random_range(2..=8));
                let first = (server.cast_signed() * 500 + batch) * 10 + 1;
                let ids: Vec<i64> = (first..).take(mixed.len()).collect();
                let at = vec![midnight(); mixed.len()];
                let told: Vec<String> =
                    sqlx::query_scalar("select reason from sell_many(null, $1, $2, $2, $3)")
                        .bind(mixed)
                        .bind(ids)
                        .bind(at)
                        .fetch_all(&mut connection)
                        .await
                        .unwrap();
                // On a machine that is busy a row may be held for longer than a batch waits.
                assert!(told.iter().all(|reason| reason == "held"), "{told:?}");
            }
        });
    }
    tasks.join_all().await;
    let found: i64 = sqlx::query_scalar(deadlocks).fetch_one(world.database.pool()).await.unwrap();
    assert_eq!(found, 0);
    let (taken, orders): (i64, i64) = sqlx::query_as(
        "select (select sum(initial_stock - stock) from seckill_vouchers), (select count(*) from orders)",
    )
    .fetch_one(world.database.pool())
    .await
    .unwrap();
    assert!(taken == orders && orders > 2_000, "{taken} taken, {orders} orders");
}

/// A batch hangs in its commit and holds its rows when its connection is cut. The same orders come again, and find
/// the rows held: nobody knows what will become of them, and they are not left out as if nothing was done.
#[tokio::test]
async fn orders_whose_answer_was_lost_stay_in_doubt_while_their_rows_are_held() {
    let world = World::new().await;
    world.users(4).await;
    let vouchers = world.many(2, 9).await;
    let (proxy, linked) = world.linked_database().await;
    let writer = writer(&linked);
    assert_eq!(place(&writer, &[order(vouchers[0], 4)]).await, [ORDERED]);
    // Its commit hangs. A statement would be ended by the session's time limit.
    let hangs = "
        create function hang() returns trigger language plpgsql as $$ begin
            while not pg_try_advisory_xact_lock_shared(1) loop perform pg_sleep(0.01); end loop;
            return null;
        end $$;
        create constraint trigger hangs after insert on orders initially deferred
        for each row execute function hang()";
    world.run(hangs.to_owned()).await;
    let holder = world.begin("select pg_advisory_xact_lock(1)").await;
    let all = [1, 2, 3].map(|buyer| order(vouchers[buyer as usize % 2], buyer));
    let cut = async {
        let hanging = "select count(*) from pg_stat_activity
            where datname = current_database() and wait_event = 'PgSleep'";
        eventually("a batch hangs", async || {
            let count = sqlx::query_scalar::<_, i64>(hanging);
            count.fetch_one(world.database.pool()).await.unwrap() == 1
        })
        .await;
        proxy.break_by(Fault::Down);
        let pool = linked.purchases();
        eventually("its connection is cut", async || pool.size() == 0).await;
        proxy.break_by(Fault::None);
    };
    let (told, ()) = tokio::join!(try_place(&writer, &all), cut);
    for answer in told {
        assert!(answer.as_ref().is_err_and(StoreError::outcome_unknown), "{answer:?}");
    }
    holder.close().await.unwrap();
    eventually("the batch ends", async || world.orders_in_good_books().await == 4).await;
    assert_eq!(place(&writer, &all).await, [ORDERED; 3]);
}

/// The database's process ends in the middle of a batch, after the rows were locked: all of it comes again, and is
/// placed once.
#[tokio::test]
async fn a_batch_of_many_vouchers_whose_connection_ends_is_placed_once() {
    let world = World::new().await;
    world.users(30).await;
    let vouchers = world.many(5, 9).await;
    let slow =
        "create or replace function sale_time() returns timestamptz language plpgsql volatile
                as $$ begin perform pg_sleep(60); return clock_timestamp(); end $$";
    let definition: String = sqlx::query_scalar("select pg_get_functiondef('sale_time'::regproc)")
        .fetch_one(world.database.pool())
        .await
        .unwrap();
    world.run(slow.to_owned()).await;
    let writer = writer(&world.database);
    let all: Vec<_> = (1..=20).map(|buyer| order(vouchers[buyer as usize % 5], buyer)).collect();
    let ends = async {
        let sleeping =
            "from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
        let count = format!("select count(*) {sleeping}");
        eventually("a batch is under way", async || {
            let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count.clone()));
            count.fetch_one(world.database.pool()).await.unwrap() == 1
        })
        .await;
        world.run(definition).await;
        world.run(format!("select pg_terminate_backend(pid) {sleeping}")).await;
    };
    let (placed, ()) = tokio::join!(place(&writer, &all), ends);
    assert_eq!(placed, [ORDERED; 20]);
    assert_eq!(place(&writer, &all).await, [ORDERED; 20]);
    assert_eq!(world.orders_in_good_books().await, 20);
}

/// Of two vouchers two orders may have one id, where the counter of ids was lost. Each buyer hears of their own.
#[tokio::test]
async fn orders_of_two_vouchers_with_one_id_are_told_apart_in_a_batch() {
    let world = World::new().await;
    world.users(4).await;
    let vouchers = world.many(2, 1).await;
    let writer = writer(&world.database);
    assert_eq!(place(&writer, &[order(vouchers[0], 1)]).await, [ORDERED]);
    let same = |voucher, buyer| (voucher, NewOrder { user: user(buyer), ..order(voucher, 2).1 });
    let both = [same(vouchers[0], 3), same(vouchers[1], 4)];
    assert_eq!(place(&writer, &both).await, [Placement::SoldOut, ORDERED]);
    assert_eq!(world.orders_in_good_books().await, 2);
}

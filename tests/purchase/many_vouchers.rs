//! Orders of many vouchers in one transaction: what becomes of each, beside rows that are held, sales that are not on,
//! servers whose batches overlap, and connections that end half-way.

use faults::Fault;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use seckill::model::{Code, Member, Refusal, VoucherId};
use seckill::store::{NewOrder, Placed, Stop, StoreError, orders};
use sqlx::Connection;
use testkit::shop::world::{World, midnight, run_sql, user};
use testkit::wait::eventually;

use super::placing::{
    ORDERED, OrderOf, SOLD_OUT, has, order, orders_in_good_books, place, refused, transactions,
    try_place, writer,
};
use super::shops::linked_database;

async fn many(world: &World, count: usize, stock: i32) -> Vec<VoucherId> {
    let mut vouchers = Vec::new();
    for _ in 0..count {
        vouchers.push(world.voucher(stock).await.id);
    }
    vouchers
}

/// The same order for somebody else.
fn by((voucher, order): OrderOf, buyer: i64) -> OrderOf {
    (voucher, NewOrder { user: user(buyer), ..order })
}

/// All in one transaction.
#[tokio::test]
async fn each_voucher_of_a_batch_is_judged_by_itself() {
    let world = World::new().await;
    world.users(40).await;
    let priced = world.priced_voucher(9).await;
    let [free, paused, ended, early, none, two, bought] = many(&world, 7, 2).await[..] else {
        unreachable!("there are seven")
    };
    let unknown = VoucherId::new(99_999).unwrap();
    let writer = writer(&world.database);
    assert_eq!(place(&writer, &[order(bought, 30)]).await, [ORDERED]);
    for (voucher, change) in [
        (paused, "paused = true"),
        (ended, "end_time = sale_time()"),
        (early, "begin_time = timestamptz '2100-01-01', end_time = '2100-01-02'"),
        (none, "stock = 0, initial_stock = 0"),
    ] {
        let change = format!("update seckill_vouchers set {change} where voucher_id = {voucher}");
        run_sql(&world.database_url, &change).await;
    }
    let begins = Member::BeginTime("2100-01-01T00:00:00Z".parse().unwrap());
    let not_started = Placed::Refused(Refusal::from(Code::SaleNotStarted).with(begins));
    let (mut all, expected): (Vec<OrderOf>, Vec<Placed>) = [
        (order(free, 1), ORDERED),
        (order(paused, 2), refused(Code::SalePaused)),
        (order(two, 3), ORDERED),
        (order(ended, 4), refused(Code::SaleEnded)),
        (order(two, 6), ORDERED),
        (order(early, 7), not_started),
        (order(none, 8), SOLD_OUT),
        (order(two, 9), SOLD_OUT),
        (order(unknown, 10), refused(Code::VoucherNotFound)),
        (by(order(bought, 20), 30), has(30)),
        (order(bought, 11), ORDERED),
        (order(free, 12), ORDERED),
    ]
    .into_iter()
    .unzip();
    all.push(order(priced.id, 5));
    for _ in 0..2 {
        let mut placed = place(&writer, &all).await;
        let Some(Placed::Ordered(Some(due))) = placed.pop() else { panic!("{placed:?}") };
        assert_eq!(due.amount, priced.price);
        assert_eq!(placed, expected);
        // The same again changes nothing: the one before, and all of the batch, of which those that were placed at once have a
        // subtransaction.
        assert_eq!(transactions(&world).await, 3);
    }
    let not_on = format!("delete from seckill_vouchers where voucher_id in ({ended}, {early})");
    run_sql(&world.database_url, &not_on).await;
    assert_eq!(orders_in_good_books(&world).await, 7);
}

/// Another session holds the rows of two of a thousand vouchers. All others are sold while it does, in a transaction that does
/// not wait for it to end; the buyers of the two are told that nothing was done.
#[tokio::test]
async fn a_row_that_is_held_delays_none_of_a_thousand_other_vouchers() {
    let world = World::new().await;
    world.users(1_000).await;
    let thousand = "
        insert into vouchers (title, created_at) select 'many', now() from generate_series(1, 1000);
        insert into seckill_vouchers (voucher_id, initial_stock, stock, begin_time, end_time)
        select id, 1, 1, sale_time() - interval '1 h', sale_time() + interval '1 h' from vouchers";
    run_sql(&world.database_url, thousand).await;
    let held = [4, 701].map(|id| VoucherId::new(id).unwrap());
    let holder =
        world.begin("select from seckill_vouchers where voucher_id in (4, 701) for update").await;
    let writer = writer(&world.database);
    let all: Vec<_> = (1..=1_000).map(|id| order(VoucherId::new(id).unwrap(), id)).collect();
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
    let again = held.map(|voucher| order(voucher, voucher.get()));
    assert_eq!(place(&writer, &again).await, [ORDERED; 2]);
    assert_eq!(orders_in_good_books(&world).await, 1_000);
}

/// While a row is held, its orders are in a call of their own, and each batch after that is the others' alone.
#[tokio::test]
async fn orders_of_a_held_row_are_placed_when_it_is_let_go() {
    let world = World::new().await;
    world.users(20).await;
    world.wait_long_for_rows().await;
    let vouchers = many(&world, 3, 9).await;
    let hold =
        format!("select from seckill_vouchers where voucher_id = {} for update", vouchers[1]);
    let holder = world.begin(&hold).await;
    let writer = writer(&world.database);
    let both = [order(vouchers[1], 1), order(vouchers[1], 2)];
    let others = async {
        world.until_one_waits().await;
        for buyer in 3..9 {
            let both = [order(vouchers[0], buyer), order(vouchers[2], buyer + 6)];
            assert_eq!(place(&writer, &both).await, [ORDERED; 2]);
        }
        holder.close().await.unwrap();
    };
    assert_eq!(tokio::join!(place(&writer, &both), others).0, [ORDERED; 2]);
    assert_eq!(orders_in_good_books(&world).await, 14);
}

/// Two servers, each with the same vouchers in an order that the seed says, at once and again: neither waits for the other
/// for ever, and nothing is sold twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_that_overlap_in_any_order_lock_each_other_out_in_none_of_two_thousand() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = World::new().await;
    world.users(10).await;
    let vouchers = many(&world, 8, 1_000_000).await;
    let fast = "alter table orders set unlogged; drop index orders_one_live_per_user";
    run_sql(&world.database_url, fast).await;
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
                    sqlx::query_scalar("select reason from sell_many($1, $2, $2, $3)")
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
    let vouchers = many(&world, 2, 9).await;
    let (proxy, linked) = linked_database(&world).await;
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
    run_sql(&world.database_url, hangs).await;
    let holder = world.begin("select pg_advisory_xact_lock(1)").await;
    let all = [1, 2, 3].map(|buyer| order(vouchers[buyer as usize % 2], buyer));
    let cut = async {
        world.until_one_sleeps().await;
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
    eventually("the batch ends", async || orders_in_good_books(&world).await == 4).await;
    assert_eq!(place(&writer, &all).await, [ORDERED; 3]);
}

/// The database's process ends in the middle of a batch, after the rows were locked: all of it comes again, and is
/// placed once.
#[tokio::test]
async fn a_batch_of_many_vouchers_whose_connection_ends_is_placed_once() {
    let world = World::new().await;
    world.users(30).await;
    let vouchers = many(&world, 5, 9).await;
    let slow =
        "create or replace function sale_time() returns timestamptz language plpgsql volatile
                as $$ begin perform pg_sleep(60); return clock_timestamp(); end $$";
    let definition: String = sqlx::query_scalar("select pg_get_functiondef('sale_time'::regproc)")
        .fetch_one(world.database.pool())
        .await
        .unwrap();
    run_sql(&world.database_url, slow).await;
    let writer = writer(&world.database);
    let all: Vec<_> = (1..=20).map(|buyer| order(vouchers[buyer as usize % 5], buyer)).collect();
    let ends = async {
        world.until_one_sleeps().await;
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and wait_event = 'PgSleep'";
        run_sql(&world.database_url, &definition).await;
        run_sql(&world.database_url, end).await;
    };
    let (placed, ()) = tokio::join!(place(&writer, &all), ends);
    assert_eq!(placed, [ORDERED; 20]);
    assert_eq!(place(&writer, &all).await, [ORDERED; 20]);
    assert_eq!(orders_in_good_books(&world).await, 20);
}

/// Of two vouchers two orders may have one id, where the counter of ids was lost. Each buyer is told of their own.
#[tokio::test]
async fn orders_of_two_vouchers_with_one_id_are_told_apart_in_a_batch() {
    let world = World::new().await;
    world.users(4).await;
    let [one, other] = many(&world, 2, 1).await[..] else { unreachable!("there are two") };
    let writer = writer(&world.database);
    assert_eq!(place(&writer, &[order(one, 2)]).await, [ORDERED]);
    let both = [by(order(one, 1), 3), by(order(other, 1), 4)];
    assert_eq!(place(&writer, &both).await, [SOLD_OUT, ORDERED]);
    run_sql(&world.database_url, "update seckill_vouchers set stock = 2, initial_stock = 3").await;
    assert_eq!(place(&writer, &[by(order(other, 2), 1)]).await, [ORDERED]);
    for (buyer, voucher) in [(2, Some(one)), (1, Some(other)), (3, None)] {
        let id = order(one, 2).1.id.into();
        let found = orders::find(world.database.pool(), id, Some(user(buyer))).await;
        match voucher {
            Some(voucher) => assert_eq!(found.unwrap().voucher_id, voucher),
            None => assert!(
                matches!(&found, Err(Stop::Refused(refusal)) if refusal.code == Code::OrderNotFound),
                "{found:?}"
            ),
        }
    }
    assert_eq!(orders_in_good_books(&world).await, 3);
}

//! Orders placed by one call of the database: what becomes of each, and that asking again changes
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use seckill::model::{Member, Order, Refusal, VoucherId};
use seckill::store::{NewOrder, Placed, StoreError, orders};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use testkit::shop::world::{World, midnight, run_sql};

use super::placing::{
    ORDERED, SOLD_OUT, has, new_orders, none_is_placed, order, orders_in_good_books, place,
    transactions, try_place, writer,
};

/// The first id of a batch, its buyers, and what becomes of each.
type Batch = (i64, &'static [i64], &'static [Placed]);

/// A name, the stock, the batches, and the stock that is left.
const CASES: [(&str, i32, &[Batch], i64); 3] = [
    (
        "a buyer who has bought is named the order before the batch or in it",
        10,
        &[
            (1, &[1], &[ORDERED]),
            (11, &[2, 1, 2, 3, 2], &[ORDERED, has(1), has(11), ORDERED, has(11)]),
        ],
        7,
    ),
    (
        "nobody is told sold out while a voucher is left, and then those who have none",
        2,
        // The second order of user 1 does not take user 2's.
        &[(1, &[1, 1, 2], &[ORDERED, has(1), ORDERED]), (11, &[3, 1], &[SOLD_OUT, has(1)])],
        0,
    ),
    (
        "an id that another order has is told to its buyer alone",
        4,
        // It takes no place from those behind it.
        &[
            (2, &[9], &[ORDERED]),
            (1, &[1, 2, 3], &[ORDERED, Placed::IdTaken, ORDERED]),
            (1, &[4, 5], &[Placed::IdTaken, Placed::IdTaken]),
            (3, &[6, 7, 8], &[Placed::IdTaken, ORDERED, SOLD_OUT]),
        ],
        0,
    ),
];

/// The same batch again says the same and changes nothing, and so does that of another process that drew the same ids for
/// the same users a moment later.
#[tokio::test]
async fn each_order_of_a_batch_is_judged_by_those_before_it_and_always_alike() {
    for (name, stock, batches, left) in CASES {
        println!("{name}");
        let world = World::new().await;
        world.users(9).await;
        let voucher = world.voucher(stock).await.id;
        let writer = writer(&world.database);
        for (first, buyers, expected) in batches {
            let all = new_orders(voucher, *first, buyers);
            assert_eq!(place(&writer, &all).await, *expected);
            let audit = world.audit().await;
            assert!(audit.holds, "{audit:?}");
            assert_eq!(place(&writer, &all).await, *expected);
            let later = |(voucher, order): &(VoucherId, NewOrder)| {
                (*voucher, NewOrder { at: order.at + TimeDelta::microseconds(1), ..*order })
            };
            let later: Vec<_> = all.iter().map(later).collect();
            for (placed, ((_, order), expected)) in
                place(&writer, &later).await.into_iter().zip(all.iter().zip(*expected))
            {
                let of_another =
                    if *expected == ORDERED { has(order.id.get()) } else { expected.clone() };
                assert_eq!(placed, of_another);
            }
            assert_eq!(world.audit().await, audit);
        }
        assert_eq!(world.audit().await.stock, left);
    }
}

#[tokio::test]
async fn the_first_in_the_batch_get_the_last_vouchers() {
    let world = World::new().await;
    world.users(300).await;
    let voucher = world.voucher(200).await.id;
    let all = new_orders(voucher, 1, &(1..=256).collect::<Vec<_>>());
    for (place, placed) in place(&writer(&world.database), &all).await.into_iter().enumerate() {
        assert_eq!(placed, if place < 200 { ORDERED } else { SOLD_OUT });
    }
    // To the microsecond.
    let NewOrder { id, user, at } = all[17].1;
    let pool = world.database.pool();
    let kept = orders::find(pool, id.into(), Some(user)).await.ok();
    assert_eq!(kept, Some(Order::placed(id, user, voucher, at, None)));
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 0, "{audit:?}");
    let updated = sqlx::query_scalar("select bool_and(updated_at = created_at) from orders");
    let updated: bool = updated.fetch_one(pool).await.unwrap();
    assert!(updated);
    assert_eq!(transactions(&world).await, 1);
}

/// A buyer who has cancelled, or not paid, so many orders of a voucher waits so many seconds, at most an hour. The neighbours in the
/// batch buy, and asking again, as after an answer that was lost, changes nothing.
#[tokio::test]
async fn a_buyer_who_buys_again_too_soon_leaves_the_batch_to_its_neighbours() {
    let world = World::new().await;
    world.users(4).await;
    let writer = writer(&world.database);
    for (cancelled, pause_s) in [(1, 1), (2, 2), (12, 2_048), (13, 3_600), (40, 3_600)] {
        world.set_time(midnight()).await;
        let voucher = world.voucher(3).await.id;
        let first = cancelled * 1_000;
        let orders = format!(
            "insert into orders
                 (id, user_id, voucher_id, status, created_at, updated_at, cancelled_at, cancelled_by)
             select {first} + number, 2, {voucher}, 4, now, now, now, 1 + 2 * (number % 2)
             from test_time, generate_series(1, {cancelled}) number"
        );
        run_sql(&world.database_url, &orders).await;
        let again = midnight() + Duration::from_secs(pause_s);
        let too_soon = Refusal::too_many_requests(Duration::from_secs(pause_s));
        world.set_time(again - TimeDelta::microseconds(1)).await;
        let batch = new_orders(voucher, first + 500, &[1, 2, 3]);
        for _ in 0..2 {
            let placed = place(&writer, &batch).await;
            assert_eq!(
                placed,
                [ORDERED, Placed::Refused(too_soon.clone()), ORDERED],
                "{cancelled}"
            );
        }
        world.set_time(again).await;
        assert_eq!(place(&writer, &batch).await, [ORDERED; 3], "{cancelled}");
        let none = place(&writer, &new_orders(voucher, first + 600, &[4])).await;
        assert_eq!(none, [SOLD_OUT]);
    }
}

/// Batches of overlapping users and vouchers, by writers and on connections of their own, each sent
/// twice as after a lost answer, in an order that the seed says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_beside_batches_keep_the_books() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = World::new().await;
    world.users(60).await;
    let mut vouchers = Vec::new();
    for stock in [37, 20, 55] {
        vouchers.push(world.voucher(stock).await.id);
    }
    let database = Arc::new(world.database.clone());
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (database, vouchers) = (Arc::clone(&database), vouchers.clone());
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(task));
            let writer = writer(&database);
            let mut told = Vec::new();
            for round in 0..10 {
                let voucher = vouchers[random.random_range(0..3)];
                let mut users: Vec<i64> = (1..=60).collect();
                users.shuffle(&mut random);
                users.truncate(random.random_range(1..30));
                let first = (task.cast_signed() * 100 + round + 1) * 1000;
                let all = new_orders(voucher, first, &users);
                for _ in 0..2 {
                    for ((_, order), placed) in all.iter().zip(place(&writer, &all).await) {
                        let id = match placed {
                            Placed::Ordered(_) => order.id,
                            Placed::Refused(Refusal {
                                member: Some(Member::OrderId(id)), ..
                            }) => id,
                            other => {
                                assert_eq!(other, SOLD_OUT);
                                continue;
                            }
                        };
                        told.push((order.user, id));
                    }
                }
            }
            told
        });
    }
    let told: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let audits = world.audits_hold().await;
    assert!(audits.iter().all(|audit| audit.orders > 0), "{audits:?}");
    for (user, id) in told {
        let kept = orders::find(world.database.pool(), id.into(), Some(user)).await;
        assert!(kept.is_ok(), "{user} was told of {id}");
    }
}

/// A plan that was made when the tables had a row or two, or a page, is still used when they have
/// thousands: it must look for each row by itself.
#[tokio::test]
async fn no_table_and_no_index_is_read_from_end_to_end_however_small_it_was() {
    for orders in [0, 1, 3, 60] {
        let world = World::new().await;
        world.users(64).await;
        let (voucher, other) = (world.voucher(500).await.id, world.voucher(2).await.id);
        if orders > 0 {
            let all = new_orders(voucher, 1, &(1..=orders).collect::<Vec<_>>());
            place(&writer(&world.database), &all).await;
        }
        let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
        sqlx::raw_sql("analyze").execute(&mut connection).await.unwrap();
        for round in 0..4 {
            let first = 1000 * (1 + round);
            let (repeated, short) = ([61 + round; 2], [1, 2, 3].map(|number| number + 3 * round));
            for (voucher, first, buyers) in [
                (voucher, first, &repeated[..1]),
                (voucher, first + 10, &repeated),
                (other, first + 20, &short),
            ] {
                let (tables, whole, single) =
                    rows_read(&mut connection, voucher, first, buyers).await;
                // Also of the transactions before; reading all of it reads ten times as much.
                assert!((tables, whole) == (2, 0) && single < 300, "{tables} {whole} {single}");
            }
            if round == 0 {
                let grow = "insert into orders (id, user_id, voucher_id)
                            select 1000000 + i, 1000000 + i, 1 from generate_series(1, 3000) i;
                            insert into vouchers (title, created_at)
                            select 'more', now() from generate_series(1, 3000);
                            insert into seckill_vouchers (voucher_id, initial_stock, stock, begin_time, end_time)
                            select id, 1, 1, now(), now() + interval '1 hour' from vouchers
                            where title = 'more'";
                sqlx::raw_sql(grow).execute(&mut connection).await.unwrap();
            }
        }
    }
}

/// Places orders in a transaction. Returns how many tables there are, how often one was read from end to end, and how many of
/// its rows were fetched by an index.
async fn rows_read(
    connection: &mut PgConnection,
    voucher: VoucherId,
    first: i64,
    buyers: &[i64],
) -> (i64, i64, i64) {
    let mut transaction = connection.begin().await.unwrap();
    let orders = new_orders(voucher, first, buyers);
    sqlx::query("select * from sell($1, $2, $3, $4)")
        .bind(voucher.get())
        .bind(orders.iter().map(|(_, order)| order.id.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|(_, order)| order.user.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|(_, order)| order.at).collect::<Vec<_>>())
        .execute(&mut *transaction)
        .await
        .unwrap();
    let read = sqlx::query_as(
        "select count(*), max(seq_scan), max(idx_tup_fetch) from pg_stat_xact_user_tables
         where relname in ('orders', 'seckill_vouchers')",
    )
    .fetch_one(&mut *transaction)
    .await
    .unwrap();
    transaction.commit().await.unwrap();
    read
}

/// The stock and the earlier orders are looked at when the row is locked.
#[tokio::test]
async fn what_was_committed_while_a_batch_waited_counts() {
    for stock in [2, 3] {
        let world = World::new().await;
        world.users(4).await;
        let voucher = world.voucher(stock).await.id;
        // One is left for two of whom one has bought, or enough for both.
        let buy = "update seckill_vouchers set stock = stock - 1;
                   insert into orders (id, user_id, voucher_id) values (90, 1, 1)";
        world.wait_long_for_rows().await;
        let writer = writer(&world.database);
        let all = new_orders(voucher, 1, &[1, 2]);
        assert_eq!(world.behind(buy, place(&writer, &all)).await, [has(90), ORDERED]);

        // What was too little for all is enough.
        let restock = "update seckill_vouchers
                       set stock = stock + 2, initial_stock = initial_stock + 2";
        let all = new_orders(voucher, 11, &[3, 4]);
        assert_eq!(world.behind(restock, place(&writer, &all)).await, [ORDERED; 2]);
        let audit = world.audit().await;
        let left = i64::from(stock) - 2;
        assert!(audit.holds && audit.stock == left && audit.orders == 4, "{audit:?}");
    }
}

/// As a migration may lock the table: nobody can buy, and afterwards they buy.
#[tokio::test]
async fn a_row_or_a_table_that_somebody_holds_fails_the_batch_and_writes_nothing() {
    for held in
        ["select from seckill_vouchers for update", "lock table seckill_vouchers in exclusive mode"]
    {
        let world = World::new().await;
        world.users(4).await;
        let (one, other) = (world.voucher(5).await.id, world.voucher(5).await.id);
        let holder = world.begin(held).await;
        let writer = writer(&world.database);
        let of_two = vec![order(one, 3), order(other, 4)];
        let batches = [new_orders(one, 1, &[1, 2]), of_two];
        for batch in &batches {
            none_is_placed(&writer, batch).await;
        }
        holder.close().await.unwrap();
        assert_eq!(orders_in_good_books(&world).await, 0);
        for batch in &batches {
            assert_eq!(place(&writer, batch).await, [ORDERED; 2]);
        }
    }
}

/// Somebody else's transaction holds the orders that two of the buyers have. They are told of them, and all others buy.
#[tokio::test]
async fn orders_that_another_session_holds_cost_nobody_else_a_purchase() {
    for held in ["update orders set updated_at = now()", "update orders set status = 3"] {
        let world = World::new().await;
        world.users(40).await;
        let voucher = world.voucher(60).await.id;
        let writer = writer(&world.database);
        assert_eq!(place(&writer, &new_orders(voucher, 901, &[1, 2])).await, [ORDERED; 2]);
        let holder = world.begin(held).await;
        let all: Vec<i64> = (3..20).chain([1]).chain(20..=40).chain([2]).collect();
        let placed = place(&writer, &new_orders(voucher, 1, &all)).await;
        for (user, placed) in all.into_iter().zip(placed) {
            assert_eq!(placed, if user < 3 { has(900 + user) } else { ORDERED }, "{user}, {held}");
        }
        holder.close().await.unwrap();
        assert!(world.audit().await.holds);
    }
}

#[tokio::test]
async fn a_refusal_of_an_order_that_was_not_sent_makes_no_other_order_placed() {
    let world = World::new().await;
    world.users(2).await;
    let voucher = world.voucher(5).await.id;
    let wrong = "create or replace function sell_many(
            vouchers bigint[], ids bigint[], users bigint[], times timestamptz[])
        returns table (of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint,
                       until timestamptz)
        language plpgsql as $$ begin
            return query select vouchers[1], 77::bigint, 'sold_out', null::bigint, null::bigint,
                                null::timestamptz;
        end $$";
    run_sql(&world.database_url, wrong).await;
    let all = new_orders(voucher, 1, &[1, 2]);
    for placed in try_place(&writer(&world.database), &all).await {
        assert!(placed.as_ref().is_err_and(StoreError::outcome_unknown), "{placed:?}");
    }
}

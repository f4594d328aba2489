//! Orders placed by one call of the database: what becomes of each, and that asking again changes
//! nothing.

#[allow(unused_imports)]
use crate::worlds::*;
use std::sync::Arc;

use chrono::TimeDelta;
use futures_util::future::join_all;
use group_commit::Limits;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use seckill::model::{Order, OrderId, VoucherId};
use seckill::store::{Database, NewOrder, OrderWriter, Placement, StoreError, orders};

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use testkit::shop::world::{World, midnight, user};

/// An order that costs nothing.
pub const ORDERED: Placement = Placement::Ordered(None);

/// Orders of these users, with ids from `first` on.
fn new_orders(first: i64, users: &[i64]) -> Vec<NewOrder> {
    let order = |(id, number): (i64, &i64)| NewOrder {
        id: OrderId::new(id).unwrap(),
        user: user(*number),
        at: midnight() + TimeDelta::microseconds(id * 1_001),
    };
    (first..).zip(users).map(order).collect()
}

fn writer(database: &Database) -> OrderWriter {
    OrderWriter::new(database.clone(), Limits::batches_of(256), false)
}

/// Places all of `orders` in one batch. All are submitted before the leader, which is a task of its
/// own, gets to run: so the runtime must have one thread.
async fn try_place(
    writer: &OrderWriter,
    voucher: VoucherId,
    orders: &[NewOrder],
) -> Vec<Result<Placement, StoreError>> {
    join_all(orders.iter().map(|order| writer.place(voucher, *order))).await
}

#[easy_ext::ext(PlaceOrdersWorld)]
pub impl World {
    async fn place(&self, voucher: VoucherId, orders: &[NewOrder]) -> Vec<Placement> {
        let placed = try_place(&writer(&self.database), voucher, orders).await;
        placed.into_iter().map(Result::unwrap).collect()
    }

    async fn order(&self, user_number: i64, id: i64) -> Option<Order> {
        let id = OrderId::new(id).unwrap();
        let buyer = Some(user(user_number));
        orders::find(self.database.pool(), id.into(), buyer).await.unwrap().order()
    }
}

fn has(order_id: i64) -> Placement {
    Placement::AlreadyBought(OrderId::new(order_id).unwrap())
}

#[tokio::test]
async fn the_first_in_the_batch_get_the_last_vouchers() {
    let world = World::new().await;
    world.users(300).await;
    let voucher = world.voucher(200).await.id;
    let all = new_orders(1, &(1..=256).collect::<Vec<_>>());
    let placed = world.place(voucher, &all).await;
    for (place, placed) in placed.into_iter().enumerate() {
        assert_eq!(placed, if place < 200 { ORDERED } else { Placement::SoldOut });
    }
    // To the microsecond.
    let kept = world.order(18, 18).await;
    assert_eq!(kept, Some(Order::placed(all[17].id, user(18), voucher, all[17].at, None)));
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 0, "{audit:?}");
    let (updated, transactions): (bool, i64) = sqlx::query_as(
        "select bool_and(updated_at = created_at), count(distinct xmin::text) from orders",
    )
    .fetch_one(world.database.pool())
    .await
    .unwrap();
    assert!(updated && transactions == 1, "{transactions} transactions");
}

/// A buyer who has cancelled so many orders of a voucher waits so many seconds, at most an hour. The neighbours in the
/// batch buy, and asking again, as after an answer that was lost, changes nothing.
#[tokio::test]
async fn a_buyer_who_buys_again_too_soon_leaves_the_batch_to_its_neighbours() {
    let world = World::new().await;
    world.users(3).await;
    let left = async |voucher: VoucherId| {
        let stock = sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1");
        let stock: i32 = stock.bind(voucher.get()).fetch_one(world.database.pool()).await.unwrap();
        stock
    };
    for (cancelled, pause_s) in [(1, 1), (2, 2), (12, 2_048), (13, 3_600), (40, 3_600)] {
        world.set_time(midnight()).await;
        let voucher = world.voucher(3).await.id;
        let first = i64::from(cancelled) * 1_000;
        sqlx::query(
            "insert into orders (id, user_id, voucher_id, status, created_at, updated_at, cancelled_at, cancelled_by)
             select $1 + number, 2, $2, 4, $3, $3, $3, 1 from generate_series(1, $4) number",
        )
        .bind(first)
        .bind(voucher.get())
        .bind(midnight())
        .bind(cancelled)
        .execute(world.database.pool())
        .await
        .unwrap();
        let again = midnight() + TimeDelta::seconds(pause_s);
        world.set_time(again - TimeDelta::microseconds(1)).await;
        let batch = new_orders(first + 500, &[1, 2, 3]);
        for _ in 0..2 {
            let placed = world.place(voucher, &batch).await;
            assert_eq!(placed, [ORDERED, Placement::TooSoon(again), ORDERED], "{cancelled}");
            assert_eq!(left(voucher).await, 1);
        }
        world.set_time(again).await;
        assert_eq!(world.place(voucher, &batch).await, [ORDERED; 3], "{cancelled}");
        assert_eq!(left(voucher).await, 0);
    }
}

#[tokio::test]
async fn how_long_the_queue_was_is_known_when_it_is_gone() {
    let world = World::new().await;
    world.users(9).await;
    let voucher = world.voucher(20).await.id;
    let writer = writer(&world.database);
    assert_eq!(writer.waiting_peak(), 0);
    // Nobody looks while they wait.
    try_place(&writer, voucher, &new_orders(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9])).await;
    assert_eq!((writer.waiting(), writer.waiting_peak()), (0, 9));
    // A look resets nothing, and fewer who wait later do not make it smaller.
    try_place(&writer, voucher, &new_orders(11, &[1, 2])).await;
    assert_eq!(writer.waiting_peak(), 9);
}

#[tokio::test]
async fn a_buyer_who_has_bought_is_named_the_order_before_the_batch_or_in_it() {
    let world = World::new().await;
    world.users(4).await;
    let voucher = world.voucher(10).await.id;
    world.place(voucher, &new_orders(1, &[1])).await;
    let placed = world.place(voucher, &new_orders(11, &[2, 1, 2, 3, 2])).await;
    assert_eq!(placed, [ORDERED, has(1), has(11), ORDERED, has(11)]);
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 7, "{audit:?}");
}

#[tokio::test]
async fn nobody_is_told_sold_out_while_a_voucher_is_left() {
    let world = World::new().await;
    world.users(4).await;
    let voucher = world.voucher(2).await.id;
    // The second order of user 1 does not take user 2's.
    let placed = world.place(voucher, &new_orders(1, &[1, 1, 2])).await;
    assert_eq!(placed, [ORDERED, has(1), ORDERED]);
    // Sold out, to those who have none.
    assert_eq!(world.place(voucher, &new_orders(11, &[3, 1])).await, [Placement::SoldOut, has(1)]);
    assert!(world.audit().await.holds);
}

#[tokio::test]
async fn an_id_that_another_order_has_is_told_to_its_buyer_alone() {
    let world = World::new().await;
    world.users(9).await;
    let voucher = world.voucher(4).await.id;
    world.place(voucher, &new_orders(2, &[9])).await;
    let placed = world.place(voucher, &new_orders(1, &[1, 2, 3])).await;
    assert_eq!(placed, [ORDERED, Placement::IdTaken, ORDERED]);
    // It takes no place from those behind it: one is left, and sold.
    let placed = world.place(voucher, &new_orders(1, &[4, 5])).await;
    assert_eq!(placed, [Placement::IdTaken, Placement::IdTaken]);
    assert_eq!(
        world.place(voucher, &new_orders(3, &[6, 7, 8])).await,
        [Placement::IdTaken, ORDERED, Placement::SoldOut]
    );
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 0, "{audit:?}");
}

#[tokio::test]
async fn two_vouchers_may_have_an_order_with_the_same_id_and_each_user_finds_the_right_one() {
    let world = World::new().await;
    world.users(2).await;
    let (one, other) = (world.voucher(5).await.id, world.voucher(5).await.id);
    assert_eq!(world.place(one, &new_orders(7, &[1])).await, [ORDERED]);
    assert_eq!(world.place(other, &new_orders(7, &[2])).await, [ORDERED]);
    assert_eq!(world.order(1, 7).await.unwrap().voucher_id, one);
    assert_eq!(world.order(2, 7).await.unwrap().voucher_id, other);
    assert_eq!(world.order(1, 8).await, None);
}

#[tokio::test]
async fn the_same_batch_again_says_the_same_and_changes_nothing() {
    let world = World::new().await;
    world.users(8).await;
    let voucher = world.voucher(3).await.id;
    world.place(voucher, &new_orders(90, &[4])).await;
    let all = new_orders(1, &[1, 4, 2, 3]);
    let placed = world.place(voucher, &all).await;
    assert_eq!(placed, [ORDERED, has(90), ORDERED, Placement::SoldOut]);
    let audit = world.audit().await;
    for _ in 0..2 {
        assert_eq!(world.place(voucher, &all).await, placed);
        assert_eq!(world.audit().await, audit);
    }
    assert!(audit.holds && audit.orders == 3, "{audit:?}");
    // Another process that drew the same ids for the same users, a moment later.
    let later = |order: &NewOrder| NewOrder { at: order.at + TimeDelta::microseconds(1), ..*order };
    let others = world.place(voucher, &all.iter().map(later).collect::<Vec<_>>()).await;
    assert_eq!(others, [has(1), has(90), has(3), Placement::SoldOut]);
    assert_eq!(world.audit().await, audit);
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
                let all = new_orders(first, &users);
                for _ in 0..2 {
                    let placed = try_place(&writer, voucher, &all).await;
                    for (order, placed) in all.iter().zip(placed) {
                        let id = match placed.unwrap() {
                            Placement::Ordered(_) => order.id,
                            Placement::AlreadyBought(id) => id,
                            other => {
                                assert_eq!(other, Placement::SoldOut);
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
    let audits = seckill::purchase::audit::run(world.database.pool(), None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds && audit.orders > 0), "{audits:?}");
    for (user, id) in told {
        let kept =
            orders::find(world.database.pool(), id.into(), Some(user)).await.unwrap().order();
        assert!(kept.is_some(), "{user} was told of {id}");
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
            world.place(voucher, &new_orders(1, &(1..=orders).collect::<Vec<_>>())).await;
        }
        let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
        sqlx::raw_sql("analyze").execute(&mut connection).await.unwrap();
        for round in 0..4 {
            let first = 1000 * (1 + round);
            let repeated = [(voucher, 61 + round), (voucher, 61 + round)];
            let short = [1, 2, 3].map(|number| (other, number + 3 * round));
            for (place, users) in [&repeated[..1], &repeated[..], &short[..]].iter().enumerate() {
                let read = rows_read(&mut connection, first + 10 * place as i64, users).await;
                // Also of the transactions before; reading all of it reads ten times as much.
                let few = 300;
                assert!(read.iter().all(|(_, whole, one)| *whole == 0 && *one < few), "{read:?}");
            }
            if round == 0 {
                let grow = "insert into orders (id, user_id, voucher_id)
                            select 1000000 + i, 1000000 + i, 1 from generate_series(1, 3000) i;
                            insert into vouchers (title, created_at)
                            select 'more', now() from generate_series(1, 3000);
                            insert into seckill_vouchers
                            select id, 1, 1, now(), now() + interval '1 hour' from vouchers
                            where title = 'more'";
                sqlx::raw_sql(grow).execute(&mut connection).await.unwrap();
            }
        }
    }
}

/// Places orders in a transaction, and says of each table how often it was read from end to end,
/// and how many rows were fetched by an index.
async fn rows_read(
    connection: &mut PgConnection,
    first: i64,
    users: &[(VoucherId, i64)],
) -> Vec<(String, i64, i64)> {
    let mut transaction = connection.begin().await.unwrap();
    let orders = new_orders(first, &users.iter().map(|(_, user)| *user).collect::<Vec<_>>());
    sqlx::query("select * from sell($1, $2, $3, $4)")
        .bind(users[0].0.get())
        .bind(orders.iter().map(|order| order.id.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.user.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.at).collect::<Vec<_>>())
        .execute(&mut *transaction)
        .await
        .unwrap();
    let read = sqlx::query_as(
        "select relname::text, seq_scan, idx_tup_fetch from pg_stat_xact_user_tables
         where relname in ('orders', 'seckill_vouchers') order by relname",
    )
    .fetch_all(&mut *transaction)
    .await
    .unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(read.len(), 2);
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
        let all = new_orders(1, &[1, 2]);
        assert_eq!(world.behind(buy, world.place(voucher, &all)).await, [has(90), ORDERED]);

        // What was too little for all is enough.
        let restock = "update seckill_vouchers
                       set stock = stock + 2, initial_stock = initial_stock + 2";
        let all = new_orders(11, &[3, 4]);
        assert_eq!(world.behind(restock, world.place(voucher, &all)).await, [ORDERED; 2]);
        let audit = world.audit().await;
        let left = i64::from(stock) - 2;
        assert!(audit.holds && audit.stock == left && audit.orders == 4, "{audit:?}");
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_fails_the_batch_and_writes_nothing() {
    let world = World::new().await;
    world.users(4).await;
    let voucher = world.voucher(5).await.id;
    let holder = world.hold_the_row().await;
    let all = new_orders(1, &[1, 2]);
    for placed in try_place(&writer(&world.database), voucher, &all).await {
        let error = placed.unwrap_err();
        assert!(error.retry_may_help() && !error.outcome_unknown(), "{error:?}");
    }
    holder.close().await.unwrap();
    assert_eq!(world.audit().await.orders, 0);
    assert_eq!(world.place(voucher, &all).await, [ORDERED; 2]);
}

/// Somebody else's transaction holds the orders that two of the buyers have. They are told of them, and all others buy.
#[tokio::test]
async fn orders_that_another_session_holds_cost_nobody_else_a_purchase() {
    for held in ["update orders set updated_at = now()", "update orders set status = 3"] {
        let world = World::new().await;
        world.users(40).await;
        let voucher = world.voucher(60).await.id;
        assert_eq!(world.place(voucher, &new_orders(901, &[1, 2])).await, [ORDERED; 2]);
        let holder = world.begin(held).await;
        let all: Vec<i64> = (3..20).chain([1]).chain(20..=40).chain([2]).collect();
        let placed = world.place(voucher, &new_orders(1, &all)).await;
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
            only_voucher bigint, vouchers bigint[], ids bigint[], users bigint[], times timestamptz[])
        returns table (of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint,
                       until timestamptz)
        language plpgsql as $$ begin
            return query select vouchers[1], 77::bigint, 'sold_out', null::bigint, null::bigint,
                                null::timestamptz;
        end $$";
    sqlx::raw_sql(wrong).execute(world.database.pool()).await.unwrap();
    for placed in try_place(&writer(&world.database), voucher, &new_orders(1, &[1, 2])).await {
        assert!(placed.as_ref().is_err_and(StoreError::outcome_unknown), "{placed:?}");
    }
}

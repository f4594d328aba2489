//! Many orders in one transaction: what becomes of each, and that asking again changes nothing.

use std::sync::Arc;

use chrono::TimeDelta;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use seckill::model::{OrderId, VoucherId};
use seckill::store::Commit;
use seckill::store::order_batch::{Sending, place_all};
use seckill::store::orders::{self, Placed, Purchase, ordered};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use crate::world::{World, midnight, user};

/// Purchases by these users, with ids from `first` on.
fn purchases(voucher: VoucherId, first: i64, users: &[i64]) -> Vec<Purchase> {
    let purchase = |(order_id, number): (i64, &i64)| Purchase {
        order_id: OrderId::new(order_id).unwrap(),
        user_id: user(*number),
        voucher_id: voucher,
        at: midnight() + TimeDelta::microseconds(order_id * 1_000_001),
    };
    (first..).zip(users).map(purchase).collect()
}

impl World {
    async fn place_all(&self, purchases: &[Purchase]) -> Vec<Placed> {
        self.send(purchases, Sending::Hopeful).await
    }

    async fn send(&self, purchases: &[Purchase], sending: Sending) -> Vec<Placed> {
        let place = self
            .database
            .with_kept(async |connection| place_all(connection, purchases, sending).await);
        place.await.unwrap()
    }
}

fn sold(purchase: &Purchase) -> Placed {
    Placed::Ordered(ordered(purchase))
}

fn has(order_id: i64) -> Placed {
    Placed::AlreadyBought(OrderId::new(order_id).unwrap())
}

#[tokio::test]
async fn the_first_in_the_batch_get_the_last_vouchers() {
    let world = World::new().await;
    world.users(300).await;
    let voucher = world.voucher(200).await;
    let all = purchases(voucher.id, 1, &(1..=256).collect::<Vec<_>>());
    let placed = world.place_all(&all).await;
    for (place, (purchase, placed)) in all.iter().zip(placed).enumerate() {
        assert_eq!(placed, if place < 200 { sold(purchase) } else { Placed::SoldOut });
    }
    // To the microsecond, as a single order is kept.
    let kept = orders::find(world.database.pool(), all[17].order_id).await.unwrap();
    assert_eq!(kept, Some(ordered(&all[17])));
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 0, "{audit:?}");
    let updated: bool = sqlx::query_scalar("select bool_and(updated_at = created_at) from orders")
        .fetch_one(world.database.pool())
        .await
        .unwrap();
    assert!(updated);
}

#[tokio::test]
async fn who_has_bought_is_named_the_order_before_the_batch_or_in_it() {
    let world = World::new().await;
    world.users(4).await;
    let voucher = world.voucher(10).await;
    world.place_all(&purchases(voucher.id, 1, &[1])).await;
    let all = purchases(voucher.id, 11, &[2, 1, 2, 3, 2]);
    let placed = world.place_all(&all).await;
    assert_eq!(placed, [sold(&all[0]), has(1), has(11), sold(&all[3]), has(11)]);
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 7, "{audit:?}");
}

#[tokio::test]
async fn nobody_is_told_sold_out_while_a_voucher_is_left() {
    let world = World::new().await;
    world.users(4).await;
    let voucher = world.voucher(2).await;
    // The second of user 1 does not take user 2's.
    let all = purchases(voucher.id, 1, &[1, 1, 2]);
    assert_eq!(world.place_all(&all).await, [sold(&all[0]), has(1), sold(&all[2])]);
    // Sold out, to those who have none.
    let late = purchases(voucher.id, 11, &[3, 1]);
    assert_eq!(world.place_all(&late).await, [Placed::SoldOut, has(1)]);
    assert!(world.audit().await.holds);
}

#[tokio::test]
async fn an_id_that_is_taken_lets_none_be_written() {
    let world = World::new().await;
    world.users(4).await;
    let (other, voucher) = (world.voucher(5).await, world.voucher(5).await);
    world.place_all(&purchases(other.id, 2, &[2])).await;
    let all = purchases(voucher.id, 1, &[1, 2, 3]);
    let place = world.database.with_kept(async |c| place_all(c, &all, Sending::Hopeful).await);
    let failed = place.await.unwrap_err();
    assert!(!failed.retry_may_help() && !failed.outcome_unknown(), "{failed:?}");
    let audits = seckill::seckill::audit::run(world.database.pool(), None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    assert_eq!((audits[0].stock, audits[1].stock), (4, 5));
}

#[tokio::test]
async fn the_same_batch_again_says_the_same_and_changes_nothing() {
    let world = World::new().await;
    world.users(8).await;
    let voucher = world.voucher(3).await;
    world.place_all(&purchases(voucher.id, 90, &[4])).await;
    let all = purchases(voucher.id, 1, &[1, 4, 2, 3]);
    let placed = world.place_all(&all).await;
    assert_eq!(placed, [sold(&all[0]), has(90), sold(&all[2]), Placed::SoldOut]);
    let audit = world.audit().await;
    for _ in 0..2 {
        assert_eq!(world.send(&all, Sending::Again).await, placed);
        assert_eq!(world.audit().await, audit);
    }
    assert!(audit.holds && audit.orders == 3, "{audit:?}");
    // Somebody else's with the same ids is told what is there.
    let others = world.place_all(&all).await;
    assert_eq!(others, [has(1), has(90), has(3), Placed::SoldOut]);
}

/// Whoever loses the answer to a batch has lost that of a commit, not that to "what do you know?".
#[tokio::test]
async fn a_connection_knows_the_call_before_the_first_batch() {
    let world = World::new().await;
    world.users(1).await;
    let voucher = world.voucher(1).await.id;
    let mut connection = world.database.acquire().await.unwrap();
    for batch in [vec![], purchases(voucher, 1, &[1])] {
        place_all(&mut connection, &batch, Sending::Hopeful).await.unwrap();
        let known: i64 = sqlx::query_scalar(
            "select count(*) from pg_prepared_statements
             where statement like 'select * from seckill_place%orders(%'",
        )
        .fetch_one(&mut *connection)
        .await
        .unwrap();
        assert_eq!(known, 2);
    }
}

#[tokio::test]
async fn nothing_is_sold_of_a_voucher_that_is_not_there() {
    let world = World::new().await;
    world.users(2).await;
    let all = purchases(VoucherId::new(9).unwrap(), 1, &[1, 2]);
    let placed = world.place_all(&all).await;
    assert_eq!(placed, [Placed::NoVoucher, Placed::NoVoucher]);
    assert_eq!(world.place_all(&[]).await, []);
    let audits = seckill::seckill::audit::run(world.database.pool(), None).await.unwrap();
    assert!(audits.is_empty(), "{audits:?}");
}

/// Batches and single statements of overlapping users and vouchers, on connections of their own,
/// each sent twice as after a lost answer, in an order that the seed says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_beside_batches_and_single_orders_keep_the_books() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = Arc::new(World::new().await);
    world.users(60).await;
    let mut vouchers = Vec::new();
    for stock in [37, 20, 55] {
        vouchers.push(world.voucher(stock).await.id);
    }
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (url, vouchers) = (world.database_url.clone(), vouchers.clone());
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(task));
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let mut told = Vec::new();
            for round in 0..10 {
                let pairs =
                    vouchers.iter().flat_map(|voucher| (1..=60).map(|user| (*voucher, user)));
                let mut pairs: Vec<(VoucherId, i64)> = pairs.collect();
                pairs.shuffle(&mut random);
                pairs.truncate(random.random_range(1..30));
                let first = (task.cast_signed() * 100 + round + 1) * 1000;
                let all = (first..).zip(pairs);
                let all = all.flat_map(|(id, (voucher, user))| purchases(voucher, id, &[user]));
                let all: Vec<Purchase> = all.collect();
                if let [one] = all.as_slice() {
                    let synchronous = random.random();
                    let commit =
                        if synchronous { Commit::Synchronous } else { Commit::Asynchronous };
                    told.push(orders::place(&mut connection, one, commit).await.unwrap());
                }
                let sending = if random.random() { Sending::Hopeful } else { Sending::Careful };
                told.extend(place_all(&mut connection, &all, sending).await.unwrap());
                told.extend(place_all(&mut connection, &all, Sending::Again).await.unwrap());
            }
            told
        });
    }
    let told: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let audits = seckill::seckill::audit::run(world.database.pool(), None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds && audit.stock == 0), "{audits:?}");
    for placed in told {
        let (Placed::Ordered(seckill::model::Order { id, .. }) | Placed::AlreadyBought(id)) =
            placed
        else {
            assert_eq!(placed, Placed::SoldOut);
            continue;
        };
        assert!(orders::find(world.database.pool(), id).await.unwrap().is_some(), "{id}");
    }
}

/// Each voucher's rest goes to whoever came first for it, and who has bought one may buy another.
#[tokio::test]
async fn many_vouchers_are_sold_in_one_transaction_each_by_its_own_books() {
    let world = World::new().await;
    world.users(4).await;
    let (one, many, none) =
        (world.voucher(1).await, world.voucher(9).await, world.voucher(0).await);
    let gone = VoucherId::new(999).unwrap();
    world.place_all(&purchases(many.id, 100, &[3])).await;
    let mut all = Vec::new();
    for (place, (voucher, number)) in [
        (many.id, 1),
        (one.id, 2),
        (none.id, 1),
        (one.id, 1),
        (many.id, 3),
        (gone, 1),
        (many.id, 2),
    ]
    .into_iter()
    .enumerate()
    {
        all.extend(purchases(voucher, 1 + place as i64, &[number]));
    }
    // In the batch again: of the same voucher, not of another.
    all.extend(purchases(one.id, 8, &[2]));
    let placed = world.place_all(&all).await;
    let expected = [
        sold(&all[0]),
        sold(&all[1]),
        Placed::SoldOut,
        Placed::SoldOut,
        has(100),
        Placed::NoVoucher,
        sold(&all[6]),
        has(2),
    ];
    assert_eq!(placed, expected);
    assert_eq!(world.send(&all, Sending::Again).await, expected);
    let audits = seckill::seckill::audit::run(world.database.pool(), None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    let stocks: Vec<i64> = audits.iter().map(|audit| audit.stock).collect();
    assert_eq!(stocks, [0, 6, 0]);
}

/// Made when the tables have a row or two, or a page, a plan is still used when they have thousands:
/// it looks for each by itself.
#[tokio::test]
async fn no_table_and_no_index_is_read_from_end_to_end_however_small_it_was() {
    let ways = [Sending::Careful, Sending::Hopeful];
    for (orders, sending) in
        [0, 1, 3, 60].into_iter().flat_map(|orders| ways.map(|way| (orders, way)))
    {
        let world = World::new().await;
        world.users(64).await;
        let (voucher, other) = (world.voucher(500).await.id, world.voucher(2).await.id);
        world.place_all(&purchases(voucher, 1, &(1..=orders).collect::<Vec<_>>())).await;
        let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
        sqlx::raw_sql("analyze").execute(&mut connection).await.unwrap();
        for round in 0..2 {
            let first = 1000 * (1 + round);
            let enough = purchases(voucher, first, &[61 + round]);
            let repeat = purchases(voucher, first + 10, &[61 + round, 63 + round]);
            let mut short = purchases(voucher, first + 20, &[61]);
            let others = [1, 2, 3].map(|number| number + 3 * round);
            short.extend(purchases(other, first + 30, &others));
            for all in [enough, repeat, short] {
                let mut transaction = connection.begin().await.unwrap();
                place_all(&mut transaction, &all, sending).await.unwrap();
                let read: Vec<(String, i64, i64)> = sqlx::query_as(
                    "select relname::text, seq_scan, idx_tup_fetch from pg_stat_xact_user_tables
                     where relname in ('orders', 'seckill_vouchers') order by relname",
                )
                .fetch_all(&mut *transaction)
                .await
                .unwrap();
                assert_eq!(read.len(), 2);
                // Also of the transactions before; whoever reads all of it reads ten times as much.
                let few = 300;
                assert!(read.iter().all(|(_, whole, one)| *whole == 0 && *one < few), "{read:?}");
                transaction.commit().await.unwrap();
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

impl World {
    /// What becomes of `all`, which wait for a row, when `holder` has committed.
    async fn behind(&self, mut holder: PgConnection, all: &[Purchase]) -> Vec<Placed> {
        let let_go = async {
            self.until_one_waits().await;
            sqlx::raw_sql("commit").execute(&mut holder).await.unwrap();
        };
        tokio::join!(self.send(all, Sending::Again), let_go).0
    }
}

/// In whatever order they are bought, and lie in the table: two batches that lock the same rows do
/// not wait for each other. Where there is enough for all, and where there is not.
#[tokio::test]
async fn rows_are_locked_in_the_order_of_their_vouchers() {
    for stock in [5, 0] {
        let world = World::new().await;
        world.users(2).await;
        let (first, last) = (world.voucher(stock).await.id, world.voucher(stock).await.id);
        let behind = "update seckill_vouchers set stock = stock where voucher_id = 1";
        sqlx::raw_sql(behind).execute(world.database.pool()).await.unwrap();
        let mut all = purchases(last, 1, &[1]);
        all.extend(purchases(first, 2, &[2]));
        for (held, other, is_free) in [(first, last, true), (last, first, false)] {
            let hold = format!("select from seckill_vouchers where voucher_id = {held} for update");
            let holder = world.begin(&hold).await;
            let look = async {
                world.until_one_waits().await;
                let free: Option<i64> = sqlx::query_scalar(
                    "select voucher_id from seckill_vouchers where voucher_id = $1
                     for update skip locked",
                )
                .bind(other.get())
                .fetch_optional(world.database.pool())
                .await
                .unwrap();
                assert_eq!(free.is_some(), is_free, "{held} is held, {stock} in stock");
                holder.close().await.unwrap();
            };
            let expected = |one| if stock > 0 { sold(one) } else { Placed::SoldOut };
            let expected: Vec<Placed> = all.iter().map(expected).collect();
            // With no time-out.
            assert_eq!(tokio::join!(world.send(&all, Sending::Again), look).0, expected);
        }
    }
}

/// Who has bought, and how many are left, is looked at when the rows are locked.
#[tokio::test]
async fn what_was_committed_while_a_batch_waited_counts() {
    for stock in [2, 3] {
        let world = World::new().await;
        world.users(4).await;
        let voucher = world.voucher(stock).await.id;
        // One is left for two of whom one has bought, or enough for both.
        let buy = "update seckill_vouchers set stock = stock - 1;
                   insert into orders (id, user_id, voucher_id) values (90, 1, 1)";
        let holder = world.begin(buy).await;
        let all = purchases(voucher, 1, &[1, 2]);
        assert_eq!(world.behind(holder, &all).await, [has(90), sold(&all[1])]);

        // What was too little for all is enough.
        let restock = "update seckill_vouchers
                       set stock = stock + 2, initial_stock = initial_stock + 2";
        let holder = world.begin(restock).await;
        let all = purchases(voucher, 11, &[3, 4]);
        let expected = [sold(&all[0]), sold(&all[1])];
        assert_eq!(world.behind(holder, &all).await, expected);
        let audit = world.audit().await;
        let left = i64::from(stock) - 2;
        assert!(audit.holds && audit.stock == left && audit.orders == 4, "{audit:?}");
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_fails_the_batch_and_writes_nothing() {
    let world = World::new().await;
    world.users(4).await;
    let (free, held) = (world.voucher(5).await.id, world.voucher(5).await.id);
    let hold = "select from seckill_vouchers where voucher_id = 2 for update";
    let holder = world.begin(hold).await;
    let mut all = purchases(free, 1, &[1, 2]);
    all.extend(purchases(held, 3, &[3]));
    assert_eq!(held.get(), 2);
    let place = world.database.with_kept(async |c| place_all(c, &all, Sending::Hopeful).await);
    let failed = place.await.unwrap_err();
    assert!(!failed.retry_may_help() && !failed.outcome_unknown(), "{failed:?}");
    holder.close().await.unwrap();
    let expected: Vec<Placed> = all.iter().map(sold).collect();
    assert_eq!(world.place_all(&all).await, expected);
}

//! How many rows administrators' lists and an audit read beside a large sale that they are not about.

use seckill::model::OrderStatus;
use seckill::purchase::audit;
use seckill::store::{cancelled_sales, orders};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection};

use testkit::shop::world::World;
use testkit::wait::eventually;

/// A large sale, most of whose orders expired, and a small one, with payments, steps and refunds. `$1` is the large one's voucher,
/// `$2` the small one's.
const SALES: &str = "
    insert into orders (id, user_id, voucher_id, status, amount, pay_by, paid_at, cancelled_at, cancelled_by)
    select i * 10, i, VOUCHER, case when i % 2 = 0 then 2 when i < 20 then 5 else 4 end, 100, now(), now(), now(), 3
    from generate_series(1, COUNT) i;
    insert into order_steps (voucher_id, order_id, number, step, status_before, status_after, actor, at)
    select voucher_id, id, 1, 'paid', 1, status, 4, now() from orders where voucher_id = VOUCHER;
    insert into payments (voucher_id, order_id, number, amount, status, transaction_id, paid_amount, created_at)
    select voucher_id, id, 1, 100, 2, 't' || id || '-' || voucher_id, 100, now() from orders where voucher_id = VOUCHER;
    insert into refunds (voucher_id, order_id, number, reason, created_at)
    select voucher_id, id, 1, 'refund', now() from orders where voucher_id = VOUCHER;";

const LARGE: i64 = 20_000;
const SMALL: i64 = 40;

/// The rows of orders and of their money that `work` reads, on a connection of its own.
async fn rows_read(world: &World, work: impl AsyncFnOnce(&PgPool)) -> i64 {
    let mut counter = PgConnection::connect(&world.database_url).await.unwrap();
    counter.execute("select pg_stat_reset()").await.unwrap();
    let pool = PgPoolOptions::new().max_connections(1).connect(&world.database_url).await.unwrap();
    work(&pool).await;
    pool.close().await;
    // A session tells what it read at its end at the latest.
    eventually("the session has ended", async || {
        let others = "select count(*) from pg_stat_activity where backend_type = 'client backend'
                      and datname = current_database() and pid <> pg_backend_pid()";
        sqlx::query_scalar::<_, i64>(others).fetch_one(&mut counter).await.unwrap() == 0
    })
    .await;
    let read =
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_user_tables
                where relname in ('orders', 'payments', 'refunds', 'order_steps')";
    sqlx::query_scalar(read).fetch_one(&mut counter).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_by_a_rare_state_and_the_audit_of_a_small_sale_read_what_they_are_about() {
    let world = World::new().await;
    world.users(LARGE as u32).await;
    let (large, small) = (world.priced_voucher(1).await.id, world.priced_voucher(1).await.id);
    let used = world.priced_voucher(1).await.id;
    let mut owner = PgConnection::connect(&world.database_url).await.unwrap();
    for (voucher, count) in [(large, LARGE), (small, SMALL), (used, LARGE)] {
        let sale = SALES.replace("VOUCHER", &voucher.to_string());
        let sale = sale.replace("COUNT", &count.to_string());
        sqlx::raw_sql(sqlx::AssertSqlSafe(sale)).execute(&mut owner).await.unwrap();
    }
    // Ten of one sale are left as paid.
    let use_up = "update orders set status = 3 where voucher_id = $1 and status = 2 and id > 200";
    sqlx::query(use_up).bind(used.get()).execute(&mut owner).await.unwrap();
    owner.execute("vacuum analyze").await.unwrap();
    owner.close().await.unwrap();
    world.database.close().await;

    let list = async |voucher, status, expected: usize| {
        rows_read(&world, async |pool| {
            let found = orders::list(pool, voucher, status, None, 20).await.unwrap();
            assert_eq!(found.len(), expected, "{status:?}");
        })
        .await
    };
    // Of two sales nobody has used one; ten of each sale are being refunded. The three sales have the same ids, and a list of
    // all ends with those that have its last id.
    for (voucher, status, expected) in [
        (Some(large), Some(OrderStatus::Used), 0),
        (Some(large), Some(OrderStatus::Refunding), 10),
        (Some(small), Some(OrderStatus::Cancelled), 10),
        (None, Some(OrderStatus::Refunded), 0),
        (None, Some(OrderStatus::Refunding), 21),
        (Some(large), Some(OrderStatus::Paid), 20),
        (Some(used), Some(OrderStatus::Paid), 10),
        (Some(used), None, 20),
        (None, None, 20),
    ] {
        let read = list(voucher, status, expected).await;
        assert!(read <= 100, "{voucher:?} {status:?}: {read} rows");
    }
    let read = rows_read(&world, async |pool| {
        let open = cancelled_sales::list_open_orders(pool, used, 20).await.unwrap();
        assert_eq!(open.len(), 10);
    })
    .await;
    assert!(read <= 100, "{read} rows");
    let read = rows_read(&world, async |pool| {
        let audits = audit::run(pool, Some(small)).await.unwrap();
        assert_eq!(audits[0].life.refunding, 10);
    })
    .await;
    assert!((SMALL..100 * SMALL).contains(&read), "{read} rows");
}

//! Another session holds a row, or a table: those who need it wait, and nobody else does.

use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::store::users;
use serde_json::json;
use sqlx::Connection;

use testkit::shop::held_rows::flood_behind;
use testkit::shop::till::{Till, notice, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

/// Those who wait are users from here on.
const FIRST: i64 = 41;

const SALE: &str = "select from seckill_vouchers where voucher_id = 1 for update";

/// What those who wait do again and again.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// Buyers cancel their orders.
    Cancel,
    /// The gateway says that money went back.
    Refunded,
    /// Users end their sessions.
    LogOut,
}

/// What is held, how many wait for it at once, in the names of how many users, what for, and what they are told.
const ROWS: [(&str, usize, usize, Waiting, &[u16]); 4] = [
    (SALE, 20, 3, Waiting::Cancel, &[503, 429]),
    (SALE, 16, 1, Waiting::Refunded, &[503, 429]),
    ("select from users where id = 41 for update", 8, 1, Waiting::LogOut, &[503]),
    // As `seckill tokens` holds all users for a moment.
    ("lock table users in share row exclusive mode", 10, 10, Waiting::LogOut, &[503]),
];

/// All that needs another sale's row, and no row that is there already of a user.
async fn others_go_on(till: &Till, other: VoucherId, users_can_be_written: bool) {
    for buyer in 1..=20 {
        let order = till.api.buy(buyer, other).await.is(201).text_of("order_id").to_owned();
        let payment = till.own_payment(buyer, &order).await;
        if buyer % 2 == 0 {
            till.own_step(buyer, &order, "cancellation").await.is(200);
        } else {
            till.notify(&succeeded(&payment, &payment, PRICE)).await.is(204);
            till.admin_step(&order, "redemption").await.is(200);
        }
        let (path, title) = (format!("/api/vouchers/{other}"), json!({ "title": order }));
        till.call_with("PATCH", &path, &till.admin(), &title).await.is(200);
        for path in ["/api/me", "/api/orders"] {
            till.get_as(buyer, path).await.is(200);
        }
        if users_can_be_written {
            let (pool, phone) = (till.world.database.pool(), format!("137{buyer:08}"));
            users::find_or_create(pool, &phone, "new", SystemClock.now()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_for_a_row_keep_nobody_from_another() {
    for (held, at_once, users, waiting, told) in ROWS {
        println!("{at_once} {waiting:?}: {held}");
        let till = Till::open(9).await;
        till.world.users(50).await;
        assert_eq!(till.voucher.id.get(), 1);
        let other = till.world.priced_voucher(40).await.id;
        let mut orders = Vec::new();
        for buyer in FIRST..FIRST + 3 {
            orders.push(till.buy(buyer).await);
        }
        let payment = till.own_payment(FIRST, &orders[0]).await;
        let refunded = notice("refunded", &payment, "t", PRICE);
        let log_out = async |user| till.call_as(user, "DELETE", "/api/sessions").await;
        let ask = async |number: usize| {
            let at = number % users;
            let user = FIRST + at as i64;
            let answer = match waiting {
                Waiting::Cancel => till.own_step(user, &orders[at], "cancellation").await,
                Waiting::Refunded => till.notify(&refunded).await,
                Waiting::LogOut => log_out(user).await,
            };
            assert!(told.contains(&answer.status), "{answer:?}");
        };
        let others = others_go_on(&till, other, !held.contains("table users"));
        flood_behind(&till.world, held, at_once, ask, others).await;
        if let Waiting::LogOut = waiting {
            log_out(FIRST).await.is(204);
        }
    }
}

/// As an index that is being made holds the table: it can be read, and not written.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_claimed_leave_readers_their_connections() {
    let till = Till::open(9).await;
    till.sql(
        "insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
         select $1, n, 'cancel_payment', 1, 1, sale_time(), sale_time() from generate_series(1, 60) n",
    )
    .await;
    let work = till.gateway_work().await;
    let holder = till.world.begin("lock table messages in share mode").await;
    let readers = async {
        till.world.until_one_waits().await;
        for reader in 0..40 {
            till.get_as(1 + reader % 5, "/api/orders").await.is(200);
        }
        holder.close().await.unwrap();
    };
    let (_, ()) = tokio::join!(work.step(), readers);
    // What could not be claimed is found again.
    eventually("the gateway is told of all", async || {
        let _ = work.step().await;
        till.gateway().cancelled.lock().unwrap().len() == 60
    })
    .await;
}

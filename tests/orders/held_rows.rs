//! Another session holds a row, or a table: those who need it wait, and nobody else does.

#[allow(unused_imports)]
use crate::worlds::*;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use sqlx::Connection;
use tokio::sync::watch;

use crate::orders::life::{Till, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

/// Buyers of the sale that nobody holds.
const BUYERS: i64 = 30;

/// The sale of the till is held by `holder`; another one is not, and `BUYERS` have bought of it.
async fn two_sales() -> (Till, Vec<String>) {
    let till = Till::open(9).await;
    till.api.world.users(40).await;
    let other = till.api.world.priced_voucher(40).await.id;
    let mut orders = Vec::new();
    for buyer in 1..=BUYERS {
        let bought = till.api.buy(buyer, other).await;
        orders.push(bought.is(201).text_of("order_id").to_owned());
    }
    (till, orders)
}

/// Does `ask` again and again, so many times at once, until `others` are done. `others` begin when the first one waits.
async fn while_they_wait(
    till: &Till,
    at_once: usize,
    ask: impl AsyncFn() -> u16,
    others: impl Future<Output = ()>,
) {
    let held =
        format!("select from seckill_vouchers where voucher_id = {} for update", till.voucher.id);
    let holder = till.api.world.begin(&held).await;
    let (stop, stopped) = watch::channel(false);
    let waiting = join_all((0..at_once).map(|_| async {
        while !*stopped.borrow() {
            let status = ask().await;
            assert!([503, 429].contains(&status), "{status}");
        }
    }));
    let others = async {
        till.api.world.until_one_waits().await;
        others.await;
        stop.send(true).unwrap();
    };
    tokio::join!(waiting, others);
    holder.close().await.unwrap();
}

/// Three buyers repeat cancellations, and all others begin to pay for what another sale sells, or cancel it.
#[tokio::test(flavor = "multi_thread")]
async fn buyers_who_wait_for_one_sale_keep_nobody_from_paying_for_another() {
    let (till, orders) = two_sales().await;
    let mut held = Vec::new();
    for buyer in 38..=40 {
        held.push((buyer, till.buy(buyer).await));
    }
    let turn = AtomicUsize::new(0);
    let cancel = async || {
        let (buyer, order) = &held[turn.fetch_add(1, Ordering::Relaxed) % held.len()];
        till.own_step(*buyer, order, "cancellation").await.status
    };
    let others = async {
        for (buyer, order) in (1..).zip(&orders) {
            till.own_step(buyer, order, "payments").await.is(201);
            till.own_step(buyer, order, "cancellation").await.is(200);
        }
    };
    while_they_wait(&till, 20, cancel, others).await;
}

/// The gateway says of one sale that money went back, and of another one that money came.
#[tokio::test(flavor = "multi_thread")]
async fn notices_that_wait_for_one_sale_keep_no_notice_of_another_waiting() {
    let (till, orders) = two_sales().await;
    let held = till.buy(40).await;
    let held = till.own_step(40, &held, "payments").await.text_of("payment_id").to_owned();
    let mut payments = Vec::new();
    for (buyer, order) in (1..).zip(&orders) {
        let payment = till.own_step(buyer, order, "payments").await;
        payments.push(payment.is(201).text_of("payment_id").to_owned());
    }
    let notice = json!({
        "payment_id": held, "status": "refunded", "transaction_id": "t", "amount": PRICE
    });
    let refunded = async || till.notify(&notice).await.status;
    let others = async {
        for payment in &payments {
            till.notify(&succeeded(payment, payment, PRICE)).await.is(204);
        }
    };
    while_they_wait(&till, 16, refunded, others).await;
}

/// As an index that is being made holds the table: it can be read, and not written.
#[tokio::test(flavor = "multi_thread")]
async fn refunds_that_cannot_be_claimed_leave_readers_their_connections() {
    for (table, rows) in [
        (
            "refunds",
            "insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason,
                 next_attempt_at, created_at)
             select 1, n, 1, 't' || n, 1, 'refund', sale_time(), sale_time()
             from generate_series(1, 60) n",
        ),
        (
            "payment_cancellations",
            "insert into payment_cancellations (voucher_id, order_id, number, next_attempt_at, created_at)
             select 1, n, 1, sale_time(), sale_time() from generate_series(1, 60) n",
        ),
    ] {
        let till = Till::open(9).await;
        let pool = till.api.world.database.pool();
        sqlx::raw_sql(rows).execute(pool).await.unwrap();
        let work = till.gateway_work().await;
        let holder = till.api.world.begin(&format!("lock table {table} in share mode")).await;
        let readers = async {
            till.api.world.until_one_waits().await;
            for reader in 0..40 {
                till.api.get_as(1 + reader % 5, "/api/orders").await.is(200);
            }
            holder.close().await.unwrap();
        };
        let (_, ()) = tokio::join!(work.step(), readers);
        // What could not be claimed is found again.
        eventually("the gateway is told of all", async || {
            let _ = work.step().await;
            let (refunded, cancelled) = (&till.gateway.refunded, &till.gateway.cancelled);
            refunded.lock().unwrap().len() + cancelled.lock().unwrap().len() == 60
        })
        .await;
    }
}

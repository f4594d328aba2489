//! Another session holds an order, a voucher's text, or a table that a step writes. Steps wait for it while they have
//! locked the row of the sale, and all buyers of the voucher wait behind them: for so short a time that the voucher is
//! sold on, however many servers take steps.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use seckill::model::VoucherId;
use seckill::store::cancelled_sales;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::Mutex;

use testkit::shop::held_rows::{
    end_those_who_wait, flood_behind, set_lock_timeouts, set_wait_behind_sales,
};
use testkit::shop::till::Till;
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

/// Purchases of the voucher in a row at each server, while somebody takes steps.
const ROUNDS: usize = 2;
/// Purchases at each server at once.
const AT_ONCE: usize = 4;

/// Processes that sell what the till sells.
struct Servers {
    till: Till,
    all: Vec<Till>,
    /// Nobody buys twice.
    last_buyer: AtomicI64,
}

impl Servers {
    async fn open(count: usize) -> Self {
        let till = Till::open(2_000).await;
        till.world.users(1_500).await;
        // A step that waited as long behind the sale, too, would stop the sale for good.
        set_lock_timeouts(till.world.database.pool(), "350ms", "10min").await;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(till.another_server().await);
        }
        Self { till, all, last_buyer: AtomicI64::new(1_000) }
    }

    /// Until the next buyer has the voucher. A busy machine may take longer than a server waits.
    async fn sell(&self, server: &Till, voucher: VoucherId) {
        let buyer = 1 + self.last_buyer.fetch_add(1, Ordering::Relaxed);
        eventually("the buyer has the voucher", async || {
            let answer = server.api.buy(buyer, voucher).await;
            answer.status == 201 || answer.status == 409 && answer.body["code"] == "already_bought"
        })
        .await;
    }

    /// All servers sell `voucher` while somebody holds what `held` locks, and `step` is taken again and again, once at a
    /// time for each of `turns`.
    async fn sell_on<T>(
        &self,
        voucher: VoucherId,
        held: &str,
        turns: &[T],
        step: impl AsyncFn(&T),
    ) {
        let purchases = async {
            for _ in 0..ROUNDS {
                let at_server = |server| join_all((0..AT_ONCE).map(|_| self.sell(server, voucher)));
                join_all(self.all.iter().map(at_server)).await;
            }
        };
        let take = async |turn: usize| step(&turns[turn]).await;
        flood_behind(&self.till.world, held, turns.len(), take, purchases).await;
    }
}

/// One buyer repeats a cancellation at each server.
#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_whose_order_is_held_keeps_nobody_from_buying() {
    for count in [2, 3] {
        let servers = Servers::open(count).await;
        let (till, voucher) = (&servers.till, servers.till.voucher.id);
        let order = till.buy(1).await;
        let cancel = async |server: &Till| {
            let answer = server.own_step(1, &order, "cancellation").await;
            assert!(answer.problem(503, "unavailable").header("retry-after").is_some());
        };
        for held in [
            &format!("update orders set updated_at = updated_at where id = {order}"),
            "lock table order_steps in share mode",
        ] {
            println!("{count} servers: {held}");
            servers.sell_on(voucher, held, &servers.all, cancel).await;
        }
        assert_eq!(till.status(1, &order).await, "unpaid");
        till.own_step(1, &order, "cancellation").await.is(200);
        till.holds().await;
    }
}

/// Administrators edit the voucher, or cancel its sale, while its text is held. Where `lock_sale` says that they wait for a
/// minute, they wait until they are given up.
#[tokio::test]
async fn a_change_of_a_voucher_waits_for_its_text_as_long_as_a_step_waits_for_an_order() {
    let till = Till::open(9).await;
    let (voucher, world) = (till.voucher.id, &till.world);
    set_wait_behind_sales(world.database.pool(), "1min").await;
    let holder =
        world.begin(&format!("select from vouchers where id = {voucher} for update")).await;
    let answer = till.administer("PATCH", "", &json!({ "title": "t" })).await;
    assert!(answer.problem(503, "unavailable").body["detail"].is_string(), "{answer:?}");
    // Not behind the edit, which the database has not given up yet.
    end_those_who_wait(world.database.pool()).await;
    let cancelled = cancelled_sales::cancel(world.database.steps(), voucher).await;
    assert!(cancelled.unwrap_err().outcome_unknown());
    holder.close().await.unwrap();
}

/// The state that an order has when a step is tried.
#[derive(Clone, Copy)]
enum Before {
    Unpaid,
    Overdue,
    Paid,
    Refunding,
    /// Of a voucher that costs nothing.
    Free,
}

/// What the other session does to the order with this id.
const ORDER: &str = "update orders set updated_at = updated_at where id = $order";
const STEPS: &str = "lock table order_steps in share mode";
const REFUNDS: &str = "lock table refunds in share mode";

/// Each function that locks a sale and then an order, and what may be held.
const FUNCTIONS: [(&str, Before, &[&str]); 7] = [
    ("cancel_order($voucher, $order, 1::smallint, 1)", Before::Unpaid, &[ORDER, STEPS]),
    ("expire_orders($voucher, array[$order])", Before::Overdue, &[STEPS]),
    ("refund_order($voucher, $order, 100)", Before::Free, &[ORDER, STEPS]),
    ("judge_payment($voucher, $order, 1, 'late', $price)", Before::Unpaid, &[ORDER, STEPS]),
    (
        "return_payment($voucher, $order, 1, '$order', $price, 2::smallint)",
        Before::Paid,
        &[ORDER, STEPS, REFUNDS],
    ),
    ("finish_refund($voucher, $order, 1)", Before::Refunding, &[ORDER, STEPS, REFUNDS]),
    ("settle_refund($voucher, $order, 100)", Before::Refunding, &[ORDER, STEPS, REFUNDS]),
];

impl Servers {
    /// An order of `voucher`, whose buyer is `buyer`.
    async fn order(&self, buyer: i64, voucher: VoucherId, before: Before) -> String {
        let till = &self.till;
        let bought = till.api.buy(buyer, voucher).await;
        let order = bought.is(201).text_of("order_id").to_owned();
        match before {
            Before::Free => {}
            Before::Unpaid => {
                till.own_step(buyer, &order, "payments").await.is(201);
            }
            Before::Overdue => {
                let late = format!("update orders set pay_by = sale_time() where id = {order}");
                let late = sqlx::raw_sql(AssertSqlSafe(late));
                late.execute(till.world.database.pool()).await.unwrap();
            }
            Before::Paid => _ = till.pay(buyer, &order, &order).await,
            Before::Refunding => {
                till.pay(buyer, &order, &order).await;
                till.admin_step(&order, "refund").await.is(202);
            }
        }
        order
    }
}

/// Three sessions take the same step, as each of three servers does once at a time.
#[tokio::test(flavor = "multi_thread")]
async fn no_step_that_has_locked_a_sale_waits_for_longer_than_buyers_do() {
    let servers = Servers::open(3).await;
    let free = servers.till.world.voucher(1_000).await.id;
    let url = &servers.till.world.database_url;
    let mut sessions = Vec::new();
    for _ in &servers.all {
        sessions.push(Mutex::new(PgConnection::connect(url).await.unwrap()));
    }
    for (buyer, (function, before, all_held)) in (1..).zip(FUNCTIONS) {
        let voucher = if matches!(before, Before::Free) { free } else { servers.till.voucher.id };
        let order = servers.order(buyer, voucher, before).await;
        let filled = |text: &str| {
            text.replace("$voucher", &voucher.to_string())
                .replace("$order", &order)
                .replace("$price", &PRICE.to_string())
        };
        let call = filled(&format!("select {function}"));
        let step = async |session: &Mutex<PgConnection>| {
            let mut session = session.lock().await;
            let call = sqlx::raw_sql(AssertSqlSafe(call.as_str()));
            let error = call.execute(&mut *session).await.unwrap_err();
            let code = error.as_database_error().and_then(|error| error.code());
            assert_eq!(code.as_deref(), Some("55P03"), "{function}: {error}");
        };
        for held in all_held {
            println!("{function}: {held}");
            servers.sell_on(voucher, &filled(held), &sessions, step).await;
        }
        // What a step waits for is no matter of its session.
        let mut session = sessions[0].lock().await;
        let call = sqlx::raw_sql(AssertSqlSafe(call.as_str()));
        call.execute(&mut *session).await.unwrap();
        let limit = sqlx::query_scalar::<_, String>("select current_setting('lock_timeout')");
        assert_eq!(limit.fetch_one(&mut *session).await.unwrap(), "0", "{function}");
    }
}

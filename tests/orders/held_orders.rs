//! Another session holds an order, a voucher's text, or a table that a step writes. Steps wait for it while they have
//! locked the row of the sale, and all buyers of the voucher wait behind them: for so short a time that the voucher is
//! sold on, however many servers take steps.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
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

/// How many take steps, and sell.
const SERVERS: usize = 3;
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
    async fn open() -> Self {
        let till = Till::open(2_000).await;
        till.world.users(1_500).await;
        // A step that waited as long behind the sale, too, would stop the sale for good.
        set_lock_timeouts(till.world.database.pool(), "350ms", "10min").await;
        let mut all = Vec::new();
        for _ in 0..SERVERS {
            all.push(till.another_server().await);
        }
        Self { till, all, last_buyer: AtomicI64::new(1_000) }
    }

    /// Until the next buyer has the voucher. A busy machine may take longer than a server waits.
    async fn sell(&self, server: &Till) {
        let buyer = 1 + self.last_buyer.fetch_add(1, Ordering::Relaxed);
        eventually("the buyer has the voucher", async || {
            let answer = server.try_buy(buyer).await;
            answer.status == 201 || answer.status == 409 && answer.body["code"] == "already_bought"
        })
        .await;
    }

    /// All servers sell while somebody holds what `held` locks, and `step` is taken again and again, once at a time for each
    /// of `turns`.
    async fn sell_on<T>(&self, held: &str, turns: &[T], step: impl AsyncFn(&T)) {
        let purchases = async {
            for _ in 0..ROUNDS {
                let at_server = |server| join_all((0..AT_ONCE).map(|_| self.sell(server)));
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
    let servers = Servers::open().await;
    let till = &servers.till;
    let order = till.buy(1).await;
    let cancel = async |server: &Till| {
        let answer = server.own_step(1, &order, "cancellation").await;
        assert!(answer.problem(503, "unavailable").header("retry-after").is_some());
    };
    for held in [ORDER.replace("$order", &order).as_str(), STEPS] {
        println!("{held}");
        servers.sell_on(held, &servers.all, cancel).await;
    }
    assert_eq!(till.status(1, &order).await, "unpaid");
    till.own_step(1, &order, "cancellation").await.is(200);
    till.holds().await;
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

/// What the other session does to the order with this id.
const ORDER: &str = "update orders set updated_at = updated_at where id = $order";
const STEPS: &str = "lock table order_steps in share mode";
const REFUNDS: &str = "lock table refunds in share mode";

/// What became of an order before a step is tried.
const OVERDUE: &str = "update orders set pay_by = sale_time() where id = $order";
const FREE: &str = "update orders set status = 2, amount = 0, pay_by = null where id = $order";
const OPENED: &str = "select open_payment($voucher, $order, $buyer, 4)";
const PAID: &str = "select open_payment($voucher, $order, $buyer, 4);
    select apply_payment($voucher, $order, 1, '$order', $price)";
const REFUNDING: &str = "select open_payment($voucher, $order, $buyer, 4);
    select apply_payment($voucher, $order, 1, '$order', $price);
    select refund_order($voucher, $order, 100)";

/// Each function that locks a sale and then an order, what was before, and what may be held.
const FUNCTIONS: [(&str, &str, &[&str]); 7] = [
    ("cancel_order($voucher, $order, 1::smallint, 1)", OPENED, &[ORDER, STEPS]),
    ("expire_orders($voucher, array[$order], 60)", OVERDUE, &[STEPS]),
    ("refund_order($voucher, $order, 100)", FREE, &[ORDER, STEPS]),
    ("judge_payment($voucher, $order, 1, 'late', $price)", OPENED, &[ORDER, STEPS]),
    (
        "return_payment($voucher, $order, 1, '$order', $price, 2::smallint, null)",
        PAID,
        &[ORDER, STEPS, REFUNDS],
    ),
    (
        "finish_refund($voucher, $order, 1, '$voucher.$order.1', $price)",
        REFUNDING,
        &[ORDER, STEPS, REFUNDS],
    ),
    ("settle_refund($voucher, $order, 100)", REFUNDING, &[ORDER, STEPS, REFUNDS]),
];

/// Three sessions take the same step, as each of three servers does once at a time.
#[tokio::test(flavor = "multi_thread")]
async fn no_step_that_has_locked_a_sale_waits_for_longer_than_buyers_do() {
    let servers = Servers::open().await;
    let (till, mut sessions) = (&servers.till, Vec::new());
    for _ in &servers.all {
        sessions.push(Mutex::new(PgConnection::connect(&till.world.database_url).await.unwrap()));
    }
    for (buyer, (function, before, all_held)) in (1..).zip(FUNCTIONS) {
        let order = till.buy(buyer).await;
        let filled = |text: &str| {
            text.replace("$voucher", &till.voucher.id.to_string())
                .replace("$order", &order)
                .replace("$buyer", &buyer.to_string())
                .replace("$price", &PRICE.to_string())
        };
        till.sql(&filled(before)).await;
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
            servers.sell_on(&filled(held), &sessions, step).await;
        }
        // What a step waits for is no matter of its session.
        let mut session = sessions[0].lock().await;
        let call = sqlx::raw_sql(AssertSqlSafe(call.as_str()));
        call.execute(&mut *session).await.unwrap();
        let limit = sqlx::query_scalar::<_, String>("select current_setting('lock_timeout')");
        assert_eq!(limit.fetch_one(&mut *session).await.unwrap(), "0", "{function}");
    }
}

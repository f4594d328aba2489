//! A payment gateway that is asked, or told, while something else happens to the order, and a sale that is ended while
//! somebody buys. Steps that meet in the functions of the database are in `life_model`.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use seckill::model::{Clock, Order, OrderStatus, Outcome, VoucherId};
use seckill::purchase::Purchases;
use seckill::store::messages::{self, Channel, MessageKind};
use seckill::store::payments::{self, PaymentId, keep_pay_url, open};
use serde_json::json;
use sqlx::PgPool;

use testkit::shop::held_rows::{set_lock_timeouts, set_wait_behind_sales};
use testkit::shop::till::{Till, succeeded};
use testkit::shop::world::{PRICE, World, user};

/// Rows are waited for longer than a busy machine takes to play a race.
pub async fn patient(world: &World) {
    set_lock_timeouts(world.database.pool(), "lock_timeout", "10s").await;
    set_wait_behind_sales(world.database.pool(), "10s").await;
}

pub async fn bought(shop: &Arc<Purchases>, number: i64, voucher: VoucherId) -> Order {
    match shop.buy(user(number), voucher).await.unwrap() {
        Outcome::Ordered(order) => order,
        refused => panic!("{refused:?}"),
    }
}

/// What has the row of the sale first counts.
#[tokio::test]
async fn a_sale_that_is_ended_earlier_sells_until_then() {
    for is_sold_first in [true, false] {
        let till = Till::open(2).await;
        patient(&till.world).await;
        let end = json!({ "end_time": till.world.clock.now() });
        let (buys, ends) = (till.try_buy(1), till.administer("PATCH", "", &end));
        if is_sold_first {
            let row = "select from seckill_vouchers for update";
            let (sold, ended) = till.world.both_behind(row, buys, ends).await;
            assert_eq!((sold.status, ended.status), (201, 200), "{sold:?}, {ended:?}");
        } else {
            // The edit has the row of the sale when it waits for this one.
            let row = "select from vouchers for update";
            let (ended, sold) = till.world.both_behind(row, ends, buys).await;
            ended.is(200);
            sold.problem(409, "sale_ended");
        }
        till.try_buy(2).await.problem(409, "sale_ended");
        till.holds().await;
    }
}

/// User 1 has an unpaid order, and a payment of it, which a server is to announce to the gateway.
struct Stage {
    till: Till,
    order: Order,
    payment: PaymentId,
}

impl Stage {
    async fn new() -> Self {
        let till = Till::open(1).await;
        patient(&till.world).await;
        let order = bought(&till.world.shop().await, 1, till.voucher.id).await;
        let payment = PaymentId { voucher: order.voucher_id, order: order.id, number: 1 };
        let stage = Self { till, order, payment };
        assert_eq!(stage.asks().await, Some(1));
        stage
    }

    /// The same after its buyer cancelled it, and a server told the gateway so.
    async fn cancelled() -> Self {
        let stage = Self::new().await;
        stage.cancel().await;
        stage.records(stage.claims().await).await;
        stage
    }

    fn steps(&self) -> &PgPool {
        self.till.world.database.steps()
    }

    async fn cancel(&self) {
        self.till.own_step(1, &self.order.id.to_string(), "cancellation").await.is(200);
    }

    async fn pay(&self, transaction: &str) {
        let paid = succeeded(&self.payment.to_string(), transaction, PRICE);
        self.till.notify(&paid).await.is(204);
    }

    /// A server wants to ask the gateway where to pay. Returns the attempt, if it may.
    async fn asks(&self) -> Option<i32> {
        open(self.steps(), &self.order, user(1), Duration::from_secs(4)).await.unwrap().attempt
    }

    /// A server keeps where to pay.
    async fn keeps(&self) -> OrderStatus {
        keep_pay_url(self.steps(), self.payment, "https://pay.example/").await.unwrap()
    }

    /// The payments that the gateway is to be told are not wanted.
    async fn due(&self) -> Vec<PaymentId> {
        let now = self.till.world.clock.now();
        let due = messages::list_due(self.steps(), Channel::Gateway, now, 9).await.unwrap();
        let due = due.into_iter().filter(|it| it.kind == MessageKind::CancelPayment);
        due.map(|it| it.payment()).collect()
    }

    /// A server claims to tell the gateway of the cancellation. Returns the attempt.
    async fn claims(&self) -> i32 {
        let now = self.till.world.clock.now();
        let until = now + TimeDelta::seconds(30);
        let message = MessageKind::CancelPayment.about(self.payment);
        messages::claim(self.steps(), message, now, until).await.unwrap().unwrap()
    }

    /// The gateway has taken it.
    async fn records(&self, attempt: i32) {
        let message = MessageKind::CancelPayment.about(self.payment);
        messages::record(self.steps(), message, attempt, None, None).await.unwrap();
    }
}

/// While the gateway is asked where to pay, the order is cancelled, and the gateway gets the cancellation before it knows
/// the payment: it gets it again.
#[tokio::test]
async fn a_payment_that_is_announced_after_its_cancellation_is_cancelled_once_more() {
    let stage = Stage::new().await;
    assert_eq!(stage.keeps().await, OrderStatus::Unpaid);
    stage.cancel().await;
    assert_eq!(stage.due().await, [stage.payment]);
    stage.records(stage.claims().await).await;
    assert!(stage.due().await.is_empty());
    assert_eq!(stage.keeps().await, OrderStatus::Cancelled);
    assert_eq!(stage.due().await, [stage.payment]);
    // Money that came meanwhile goes back: the gateway is not told that it is not wanted.
    stage.pay("late").await;
    assert_eq!(stage.keeps().await, OrderStatus::Cancelled);
    assert!(stage.due().await.is_empty());
}

/// The money of a cancelled order comes while a server keeps where to pay.
#[tokio::test]
async fn a_payment_whose_money_comes_while_its_address_is_kept_is_not_cancelled_once_more() {
    let stage = Stage::cancelled().await;
    let (voucher, order) = (stage.order.voucher_id, stage.order.id);
    let late = format!("select judge_payment({voucher}, {order}, 1, 'first', {PRICE})");
    assert_eq!(stage.till.world.behind(&late, stage.keeps()).await, OrderStatus::Cancelled);
    assert!(stage.due().await.is_empty());
}

/// A server has told the gateway of the cancellation, and writes so, while another one keeps where to pay: whichever writes
/// first, the gateway gets the message again.
#[tokio::test]
async fn a_server_that_told_the_gateway_too_early_does_not_end_what_is_to_be_told_again() {
    let row = "select from messages for update";
    for is_recorded_first in [true, false] {
        let stage = Stage::new().await;
        stage.cancel().await;
        let recorded = stage.records(stage.claims().await);
        let status = if is_recorded_first {
            stage.till.world.both_behind(row, recorded, stage.keeps()).await.1
        } else {
            stage.till.world.both_behind(row, stage.keeps(), recorded).await.0
        };
        assert_eq!(status, OrderStatus::Cancelled);
        assert_eq!(stage.due().await, [stage.payment], "recorded first: {is_recorded_first}");
    }
}

/// A server that asked the gateway for longer than its claim writes nothing of it: another one asks by now.
#[tokio::test]
async fn an_attempt_whose_claim_is_over_postpones_nothing() {
    let stage = Stage::new().await;
    let (till, steps, now) = (&stage.till, stage.steps(), stage.till.world.clock.now());
    let failed = async |attempt| {
        payments::ask_later(steps, stage.payment, attempt, Duration::ZERO).await.unwrap();
    };
    till.after(TimeDelta::seconds(5)).await;
    assert_eq!(stage.asks().await, Some(2));
    failed(1).await;
    assert_eq!(stage.asks().await, None);
    failed(2).await;
    assert_eq!(stage.asks().await, Some(3));

    // The same of a refund.
    stage.pay("first").await;
    till.admin_step(&stage.order.id.to_string(), "refund").await.is(202);
    let message = MessageKind::Refund.about(stage.payment);
    let claimed = async |seconds| {
        let at = now + TimeDelta::seconds(seconds);
        let until = at + TimeDelta::seconds(30);
        messages::claim(steps, message, at, until).await.unwrap()
    };
    let failed = async |attempt| {
        messages::record(steps, message, attempt, Some(""), Some(now)).await.unwrap();
    };
    assert_eq!([claimed(6).await, claimed(37).await], [Some(1), Some(2)]);
    failed(1).await;
    assert_eq!(claimed(38).await, None);
    failed(2).await;
    assert_eq!(claimed(38).await, Some(3));
}

/// Who was to ask the gateway has died, and the database's clock goes back by an hour.
#[tokio::test]
async fn a_claim_lasts_no_longer_because_the_clock_goes_back() {
    let stage = Stage::new().await;
    assert_eq!(stage.asks().await, None);
    stage.till.after(TimeDelta::hours(-1)).await;
    assert_eq!(stage.asks().await, Some(2));
}

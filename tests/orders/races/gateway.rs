//! The gateway is asked, or told, while something else happens to the order.

use std::time::Duration;

use chrono::TimeDelta;
use seckill::model::{Clock, OrderStatus};
use seckill::orders::StepAnswer;
use seckill::store::gateway_messages::{CANCELLATIONS, PaymentCancellation, REFUNDS};
use seckill::store::order_steps::AdministratorStep;
use seckill::store::payments::{self, NoticeOutcome, Opened, PaymentId, keep_pay_url, open};
use seckill::store::refunds::Refund;

use testkit::shop::world::{PRICE, user};

use super::Stage;

impl Stage {
    /// A server wants to ask the gateway where to pay.
    async fn asks(&self) -> Opened {
        let steps = self.world.database.steps();
        open(steps, &self.order, user(1), Duration::from_secs(4)).await.unwrap()
    }

    /// A server keeps where to pay.
    async fn keeps(&self) -> OrderStatus {
        let steps = self.world.database.steps();
        keep_pay_url(steps, self.payment, "https://pay.example/").await.unwrap()
    }

    /// The payments that the gateway is to be told are not wanted.
    async fn due(&self) -> Vec<PaymentId> {
        let (steps, now) = (self.world.database.steps(), self.world.clock.now());
        CANCELLATIONS.list_due(steps, now, 9).await.unwrap()
    }

    /// A server claims to tell the gateway of the cancellation. Returns the attempt.
    async fn claims(&self) -> i32 {
        let (steps, now) = (self.world.database.steps(), self.world.clock.now());
        let until = now + TimeDelta::seconds(30);
        let claimed = CANCELLATIONS.claim(steps, self.payment, now, until).await.unwrap();
        claimed.map(|it: PaymentCancellation| it.attempts).unwrap()
    }

    /// The gateway has taken it.
    async fn records(&self, attempt: i32) {
        let steps = self.world.database.steps();
        CANCELLATIONS.record(steps, self.payment, attempt, None, None).await.unwrap();
    }
}

/// While the gateway is asked where to pay, the order is cancelled, and the gateway gets the cancellation before it knows
/// the payment: it gets it again.
#[tokio::test]
async fn a_payment_that_is_announced_after_its_cancellation_is_cancelled_once_more() {
    let stage = Stage::new(1).await;
    assert_eq!(stage.keeps().await, OrderStatus::Unpaid);
    stage.cancel().await;
    assert_eq!(stage.due().await, [stage.payment]);
    stage.records(stage.claims().await).await;
    assert!(stage.due().await.is_empty());
    assert_eq!(stage.keeps().await, OrderStatus::Cancelled);
    assert_eq!(stage.due().await, [stage.payment]);
    // Money that came meanwhile goes back: the gateway is not told that it is not wanted.
    assert_eq!(stage.pay("late").await, NoticeOutcome::OrderCancelled);
    assert_eq!(stage.keeps().await, OrderStatus::Cancelled);
    assert!(stage.due().await.is_empty());
}

/// The money of a cancelled order comes while a server keeps where to pay.
#[tokio::test]
async fn a_payment_whose_money_comes_while_its_address_is_kept_is_not_cancelled_once_more() {
    let stage = Stage::new(1).await;
    stage.cancel().await;
    stage.records(stage.claims().await).await;
    let (voucher, order) = (stage.voucher.id, stage.order.id);
    let late = format!("select judge_payment({voucher}, {order}, 1, 'first', {PRICE})");
    assert_eq!(stage.world.behind(&late, stage.keeps()).await, OrderStatus::Cancelled);
    assert!(stage.due().await.is_empty());
}

/// A server has told the gateway of the cancellation, and writes so, while another one keeps where to pay: whichever writes
/// first, the gateway gets the message again.
#[tokio::test]
async fn a_server_that_told_the_gateway_too_early_does_not_end_what_is_to_be_told_again() {
    let row = "select from payment_cancellations for update";
    for is_recorded_first in [true, false] {
        let stage = Stage::new(1).await;
        stage.cancel().await;
        let recorded = stage.records(stage.claims().await);
        let status = if is_recorded_first {
            stage.world.both_behind(row, recorded, stage.keeps()).await.1
        } else {
            stage.world.both_behind(row, stage.keeps(), recorded).await.0
        };
        assert_eq!(status, OrderStatus::Cancelled);
        assert_eq!(stage.due().await, [stage.payment], "recorded first: {is_recorded_first}");
    }
}

/// A server that asked the gateway for longer than its claim writes nothing of it: another one asks by now.
#[tokio::test]
async fn an_attempt_whose_claim_is_over_postpones_nothing() {
    let stage = Stage::new(1).await;
    let (steps, now) = (stage.world.database.steps(), stage.world.clock.now());
    let failed = async |attempt| {
        payments::ask_later(steps, stage.payment, attempt, Duration::ZERO).await.unwrap();
    };
    stage.pass(5).await;
    assert!(matches!(stage.asks().await, Opened::Ask { attempt: 2, .. }));
    failed(1).await;
    assert!(matches!(stage.asks().await, Opened::AskLater { .. }));
    failed(2).await;
    assert!(matches!(stage.asks().await, Opened::Ask { attempt: 3, .. }));

    // The same of a refund.
    assert_eq!(stage.pay("first").await, NoticeOutcome::Applied);
    let refund = stage.orders.administer(AdministratorStep::Refund, stage.order.id, None).await;
    assert!(matches!(refund.unwrap(), StepAnswer::Done(_)));
    let claimed = async |seconds| {
        let at = now + TimeDelta::seconds(seconds);
        let until = at + TimeDelta::seconds(30);
        let refund = REFUNDS.claim(steps, stage.payment, at, until).await.unwrap();
        refund.map(|refund: Refund| refund.attempts)
    };
    let failed = async |attempt| {
        let recorded = REFUNDS.record(steps, stage.payment, attempt, Some(""), Some(now));
        recorded.await.unwrap();
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
    let stage = Stage::new(1).await;
    assert!(matches!(stage.asks().await, Opened::AskLater { .. }));
    stage.pass(-3600).await;
    assert!(matches!(stage.asks().await, Opened::Ask { attempt: 2, .. }));
}

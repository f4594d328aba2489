//! The payments of a demo: buyers pay over HTTP, at the sandbox of any node.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Method;
use serde::Deserialize;
use tokio::time::sleep;

use load::calls::{self, Call, CallAnswer};
use load::crowd::Buyer;
use load::outcome::NO_ANSWER;
use seckill::model::VoucherId;
use seckill::store::payments::PaymentId;
use seckill::store::statements::Work;
use seckill::store::{Database, StoreError};

/// Requests at once. A node settles as many payments at once, and no more.
const AT_ONCE: usize = 16;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How often, and how long after, a buyer asks again who was not answered, or was told to come again.
const TRIES_AGAIN: usize = 5;
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// An order that its buyer means to pay.
#[derive(Clone)]
pub struct OrderToPay {
    /// The user who bought.
    pub buyer: Buyer,
    /// As the purchase named it.
    pub order_id: String,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paying {
    /// The payment of which the buyer was told that it is made.
    pub paid: Option<PaymentId>,
    /// Whether the time to pay was over.
    pub is_late: bool,
    /// What came instead of a proper answer.
    pub failure: Option<String>,
}

/// Lets every buyer pay, some at once. `progress` is told how many have their answers. Each presses the button
/// twice at once, at two nodes where there are two: that is one payment.
pub async fn pay(
    nodes: &[SocketAddr],
    orders: &[OrderToPay],
    progress: impl Fn(u64),
) -> Vec<Paying> {
    let mut paying = Vec::with_capacity(orders.len());
    for orders in orders.chunks(AT_ONCE) {
        paying.extend(pay_at_once(nodes, orders).await);
        progress(paying.len() as u64);
    }
    paying
}

async fn pay_at_once(nodes: &[SocketAddr], orders: &[OrderToPay]) -> Vec<Paying> {
    let call = |turn: usize, path, body: &'static str, order: &OrderToPay| Call {
        node: nodes[turn % nodes.len()].into(),
        method: Method::POST,
        path,
        token: Some(order.buyer.token.clone()),
        headers: Default::default(),
        body: body.into(),
    };
    let begin = |(turn, order): (usize, &OrderToPay)| {
        call(turn, format!("/api/orders/{}/payments", order.order_id), "", order)
    };
    let begun = send(orders.iter().enumerate().map(begin).collect()).await;
    let begun: Vec<_> = begun.iter().map(read_payment).collect();
    let mut presses = Vec::new();
    for (turn, (order, begun)) in orders.iter().zip(&begun).enumerate() {
        let Ok(payment) = begun else { continue };
        for turn in [turn, turn + 1] {
            let path = format!("/api/sandbox/payments/{payment}");
            presses.push(call(turn, path, r#"{"action":"pay"}"#, order));
        }
    }
    let pressed = send(presses).await;
    let mut pressed = pressed.chunks(2);
    let paying = begun.into_iter().map(|begun| match begun {
        Err(failed) => failed,
        Ok(payment) => {
            let answers = pressed.next().unwrap_or_default();
            let is_paid = |answer: &&Option<CallAnswer>| status(answer) == Some(204);
            let failure = answers.iter().find(|answer| !is_paid(answer)).map(in_words);
            let paid = answers.iter().any(|answer| is_paid(&answer)).then_some(payment);
            Paying { paid, failure, is_late: false }
        }
    });
    paying.collect()
}

/// Sends all, and again what was not decided. A payment has a name: who asks again pays once.
async fn send(calls: Vec<Call>) -> Vec<Option<CallAnswer>> {
    let mut answers = calls::send(&calls, AT_ONCE, ANSWER_WITHIN).await;
    for _ in 0..TRIES_AGAIN {
        let is_open = |index: &usize| matches!(status(&answers[*index]), None | Some(503));
        let open: Vec<usize> = (0..calls.len()).filter(is_open).collect();
        if open.is_empty() {
            break;
        }
        sleep(AGAIN_AFTER).await;
        let again: Vec<_> = open.iter().map(|index| calls[*index].clone()).collect();
        let again = calls::send(&again, AT_ONCE, ANSWER_WITHIN).await;
        for (index, answer) in open.into_iter().zip(again) {
            answers[index] = answer;
        }
    }
    answers
}

fn status(answer: &Option<CallAnswer>) -> Option<u16> {
    answer.as_ref().map(|answer| answer.status)
}

fn in_words(answer: &Option<CallAnswer>) -> String {
    status(answer).map_or_else(|| NO_ANSWER.to_owned(), |status| format!("http_{status}"))
}

/// The payment that was begun.
fn read_payment(answer: &Option<CallAnswer>) -> Result<PaymentId, Paying> {
    #[derive(Deserialize)]
    struct PaymentBody {
        payment_id: String,
    }
    let Some(CallAnswer { status: 201, body, .. }) = answer else {
        let is_late = status(answer) == Some(409);
        let failure = (!is_late).then(|| in_words(answer));
        return Err(Paying { is_late, failure, paid: None });
    };
    let body: Option<PaymentBody> = serde_json::from_slice(body).ok();
    let payment = body.and_then(|body| body.payment_id.parse().ok());
    let failure = Some("http_201 without a payment_id".to_owned());
    payment.ok_or(Paying { failure, ..Paying::default() })
}

/// How many of the payments of which buyers were `told`, as (user, payment), are not in the database as the
/// one that paid for an order of that user, with one row in the log of steps.
///
/// # Errors
/// As any statement.
pub async fn count_lost(
    database: &Database,
    voucher: VoucherId,
    told: &[(i64, PaymentId)],
) -> Result<i64, StoreError> {
    let users: Vec<i64> = told.iter().map(|(user, _)| *user).collect();
    let orders: Vec<i64> = told.iter().map(|(_, payment)| payment.order.get()).collect();
    let numbers: Vec<i32> = told.iter().map(|(_, payment)| payment.number).collect();
    let lost = sqlx::query_scalar(
        "select count(*) - count(distinct o.id)
         from unnest($1::bigint[], $2::bigint[], $3::integer[]) as told (user_id, order_id, number)
         left join payments p on p.order_id = told.order_id and p.number = told.number
           and p.voucher_id = $4 and p.status = 2
         left join orders o on o.id = p.order_id and o.voucher_id = $4
           and o.user_id = told.user_id and o.status in (2, 3)
           and (select count(*) from order_steps s
                where s.order_id = o.id and s.voucher_id = o.voucher_id
                  and s.step in ('paid', 'revived')) = 1",
    )
    .bind(users)
    .bind(orders)
    .bind(numbers)
    .bind(voucher.get());
    let pool = database.pool();
    Work::snapshot(ANSWER_WITHIN, pool).run(async |session| lost.fetch_one(session).await).await
}

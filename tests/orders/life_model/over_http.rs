//! The steps of the model by the API of a server in this process, and by its workers.

use std::sync::Arc;

use axum::Router;
use reqwest::RequestBuilder;
use seckill::http::App;
use seckill::model::VoucherId;
use seckill::orders::expiry::Expiry;
use seckill::orders::gateway_work::GatewayWork;
use seckill::orders::line::LineWork;
use seckill::pages::Site;
use seckill::store::cancelled_sales;
use seckill::store::payments::PaymentId;
use serde_json::{Value, json};
use testkit::shop::api_client::{Answer, Client};
use testkit::shop::kept_payments::KeptPayments;
use testkit::shop::till::ADMINISTRATOR;
use testkit::shop::world::World;
use testkit::wait::PATIENCE;
use tokio::time::{Duration, Instant, sleep};

use super::case::{Case, name_of};
use super::model::{Buyer, Money, Nth, Sale, Step, Who, Why, refund_message};
use super::runs::{Driver, known, pass, wind_up};

/// Longer than a server may answer from its cache (docs/reliability.md).
const CACHED_FOR: Duration = Duration::from_millis(2_500);

pub struct OverHttp {
    app: App,
    client: Client,
    /// What the model says of the step, for a refusal that may come from the cache.
    expected: String,
}

/// A world, and a case in it.
type At<'a> = (&'a World, &'a Case);

impl OverHttp {
    pub async fn new(world: &World) -> Self {
        world.admin_token(ADMINISTRATOR).await;
        let app = world.app().await;
        let address = World::serve_app(app.clone(), &Arc::new(Site::default()), Router::new());
        Self { app, client: Client::at(address), expected: String::new() }
    }

    /// Sends it again while a machine that is busy answers 503. `None`: nobody knows what became of it.
    async fn send(&self, make: impl Fn() -> RequestBuilder) -> Option<Answer> {
        let begun = Instant::now();
        loop {
            let answer = self.client.send(make()).await;
            match answer.status {
                503 if answer.body.get("detail").is_some() => return None,
                503 => assert!(begun.elapsed() < PATIENCE, "{answer:?}"),
                _ => return Some(answer),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ask(&self, world: &World, user: Buyer, method: &str, path: &str) -> Option<Answer> {
        self.send(|| self.client.request(method, path).bearer_auth(world.token(user))).await
    }

    async fn order(&self, at: At<'_>, nth: Nth, who: Who, step: &str) -> Option<Answer> {
        let (world, case) = at;
        let user = if who == Who::Buyer { case.buyer_of(nth) } else { ADMINISTRATOR };
        self.ask(world, user, "POST", &format!("/api/orders/{}/{step}", case.order(nth))).await
    }

    async fn step(&self, at: At<'_>, nth: Nth, who: Who, step: &str) -> Option<String> {
        Some(word(&self.order(at, nth, who, step).await?, "done"))
    }

    async fn notify(&self, at: At<'_>, nth: Nth, number: i32, said: Value) -> Option<String> {
        let (world, case) = at;
        let payment = format!("{}.{}.{number}", case.voucher_of(nth), case.order(nth));
        let mut body = json!({ "payment_id": payment });
        body.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        let body = serde_json::to_vec(&body).unwrap();
        let signature = world.payment_key().sign(1, &body);
        let answer = self.send(|| self.client.noticing(&body, &signature)).await?;
        // Money that nobody here knows is shown to an administrator.
        let kept = "delete from unmatched_payments where payment_id = $1";
        let kept = sqlx::query(kept).bind(payment).execute(world.database.pool()).await.unwrap();
        Some(word(&answer, if kept.rows_affected() > 0 { "unknown" } else { "taken" }))
    }

    async fn buy(&self, (world, case): At<'_>, buyer: Buyer, sale: Sale) -> Option<String> {
        let path = format!("/api/vouchers/{}/orders", case.vouchers[sale]);
        let begun = Instant::now();
        loop {
            let said = word(&self.ask(world, buyer, "POST", &path).await?, "ordered");
            // A server remembers for a moment that a buyer had an order (src/orders/README.md, row 11).
            let is_cached = said == "already_bought" && self.expected != said;
            if !is_cached || begun.elapsed() > CACHED_FOR {
                return Some(said);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn open(&self, at: At<'_>, nth: Nth) -> Option<String> {
        let answer = self.order(at, nth, Who::Buyer, "payments").await?;
        if answer.status != 201 {
            return Some(word(&answer, ""));
        }
        let payment: PaymentId = answer.text_of("payment_id").parse().unwrap();
        Some(format!("opened {}", payment.number))
    }

    async fn enter(&self, (world, case): At<'_>, buyer: Buyer, sale: Sale) -> Option<String> {
        let answer = self.ask(world, buyer, "POST", &entries(case.vouchers[sale])).await?;
        Some(match (answer.status, answer.body["place"].as_i64()) {
            (201, Some(place)) => format!("entered as {place}"),
            (200, _) => "entered_before".to_owned(),
            _ => word(&answer, "entered"),
        })
    }

    async fn change(&self, at: At<'_>, sale: Sale, change: Value) -> Option<String> {
        let path = format!("/api/vouchers/{}", at.1.vouchers[sale]);
        let token = at.0.token(ADMINISTRATOR);
        let send =
            self.send(|| self.client.request("PATCH", &path).bearer_auth(&token).json(&change));
        Some(word(&send.await?, "changed"))
    }

    /// The requests to a gateway that does all of them.
    async fn gateway(&self, (world, case): At<'_>) -> Option<String> {
        let (gateway, purchases) = (Arc::new(KeptPayments::default()), &self.app.purchases);
        let work = GatewayWork::new(world.database.clone(), Arc::clone(purchases), gateway.clone());
        known(work.step().await)?;
        let mut messages = Vec::new();
        for it in gateway.refunded.lock().unwrap().iter() {
            if let Some(nth) = case.nth(it.refund.order.get()) {
                let sum = (name_of(&it.transaction_id), it.amount);
                messages.push(refund_message(nth, it.refund.number, it.payment.number, sum));
            }
        }
        for it in gateway.cancelled.lock().unwrap().iter() {
            let it: PaymentId = it.parse().unwrap();
            let nth = case.nth(it.order.get());
            messages.extend(nth.map(|nth| format!("unwanted {nth}.{}", it.number)));
        }
        messages.sort();
        Some(messages.join(", "))
    }

    async fn work(&mut self, (world, case): At<'_>, step: Step) -> Option<()> {
        let (database, purchases) = (world.database.clone(), Arc::clone(&self.app.purchases));
        match step {
            Step::Expire => known(Expiry::new(database, purchases).step().await).map(drop)?,
            Step::Serve => {
                let mut work = LineWork::new(database, purchases);
                while known(work.step().await)? {}
            }
            Step::WindUp => {
                wind_up(world, case).await?;
                case.vouchers.iter().for_each(|voucher| purchases.voucher_changed(*voucher));
            }
            Step::Restart => *self = Self::new(world).await,
            Step::Pass(seconds) => pass(world, seconds).await,
            _ => unreachable!("{step:?} is a part of another step"),
        }
        Some(())
    }
}

/// What the answer says: `done`, or the code of the problem, or the state of the order that does not allow it.
fn word(answer: &Answer, done: &str) -> String {
    match (answer.status, answer.body["code"].as_str()) {
        (200..300, _) => done.to_owned(),
        (409, Some("order_state")) => format!("refused {}", answer.text_of("order_status")),
        (_, Some(code)) => {
            answer.problem(answer.status, code);
            code.to_owned()
        }
        _ => panic!("{answer:?}"),
    }
}

fn money(case: &Case, nth: Nth, money: Money, status: &str) -> Value {
    json!({ "status": status, "transaction_id": case.transaction(nth, money), "amount": money.1.in_money() })
}

fn entries(voucher: VoucherId) -> String {
    format!("/api/vouchers/{voucher}/entries")
}

impl Driver for OverHttp {
    async fn take(&mut self, world: &World, case: &Case, step: Step) -> Option<String> {
        let (at, admin) = ((world, case), Who::Administrator);
        match step {
            Step::Buy(buyer, sale) => self.buy(at, buyer, sale).await,
            // No such request can be written: a server does it by itself.
            Step::BuyAgain(_) => Some(self.expected.clone()),
            Step::Open(nth) => self.open(at, nth).await,
            Step::Took(nth, number, it) => {
                self.notify(at, nth, number, money(case, nth, it, "succeeded")).await
            }
            Step::Failed(nth, number) => {
                self.notify(at, nth, number, json!({ "status": "failed" })).await
            }
            Step::GaveBack(nth, number, it, why) => {
                let status = if why == Why::Refunded { "refunded" } else { "charged_back" };
                self.notify(at, nth, number, money(case, nth, it, status)).await
            }
            Step::Cancel(nth, who) => self.step(at, nth, who, "cancellation").await,
            Step::Redeem(nth) => self.step(at, nth, admin, "redemption").await,
            Step::Refund(nth) => self.step(at, nth, admin, "refund").await,
            Step::Settle(nth) => self.step(at, nth, admin, "settlement").await,
            Step::Gateway => self.gateway(at).await,
            Step::Pause(sale, is_paused) => {
                self.change(at, sale, json!({ "paused": is_paused })).await
            }
            Step::Restock(sale, more) => match case.initial(sale) + i64::from(more) {
                // No such request can be written.
                ..0 => Some(self.expected.clone()),
                stock => self.change(at, sale, json!({ "initial_stock": stock })).await,
            },
            Step::CancelSale(sale) => {
                // By the shell: servers learn of it within a second, and this one at once.
                let voucher = case.vouchers[sale];
                let cancelled = cancelled_sales::cancel(world.database.pool(), voucher).await;
                assert!(known(cancelled)?);
                self.app.purchases.voucher_changed(voucher);
                Some("done".to_owned())
            }
            Step::Enter(buyer, sale) => self.enter(at, buyer, sale).await,
            Step::Leave(buyer, sale) => {
                let answer =
                    self.ask(world, buyer, "DELETE", &entries(case.vouchers[sale])).await?;
                Some(word(&answer, "left"))
            }
            step => self.work(at, step).await.map(|()| String::new()),
        }
    }

    fn expects(&mut self, word: &str) {
        self.expected = word.to_owned();
    }

    fn sees(&self, step: Step, word: String) -> String {
        let is_notice = matches!(step, Step::Took(..) | Step::Failed(..) | Step::GaveBack(..));
        match (step, word.as_str()) {
            (_, "partial") if is_notice => "invalid_request".to_owned(),
            (Step::Took(..) | Step::GaveBack(..), "unknown") => word,
            _ if is_notice => "taken".to_owned(),
            (Step::Leave(..), "not_entered") => "left".to_owned(),
            _ => word,
        }
    }
}

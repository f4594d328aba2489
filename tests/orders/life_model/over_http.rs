//! The steps of the model by the API of a server in this process, and by its workers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use reqwest::RequestBuilder;
use seckill::http::App;
use seckill::orders::expiry::Expiry;
use seckill::orders::line::LineWork;
use seckill::orders::outbox::Outbox;
use seckill::pages::Site;
use seckill::store::cancelled_sales;
use seckill::store::notices::{self, Notice};
use seckill::store::payments::PaymentId;
use serde_json::{Value, json};
use testkit::shop::api_client::{Answer, Client};
use testkit::shop::kept_payments::KeptPayments;
use testkit::shop::till::{ADMINISTRATOR, notice};
use testkit::shop::world::World;
use testkit::wait::PATIENCE;
use tokio::time::{Instant, sleep};

use super::case::{Case, name_of};
use super::in_database::return_id;
use super::model::{ASK_WITHIN, By, Money, Name, Nth, Said, Sale, Step, Who, refund_message};
use super::runs::{Driver, known, pass, wind_up};

/// Longer than a server may answer from its cache (docs/reliability.md).
const CACHED_FOR: Duration = Duration::from_millis(2_500);

pub struct OverHttp {
    app: App,
    client: Client,
    /// Purchases that came too soon after a cancellation.
    too_soon: Vec<Step>,
}

impl OverHttp {
    pub async fn new(world: &World) -> Self {
        world.admin_token(ADMINISTRATOR).await;
        let app = world.app().await;
        let address = World::serve_app(app.clone(), &Arc::new(Site::default()), Router::new());
        Self { app, client: Client::at(address), too_soon: Vec::new() }
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

    async fn ask(&self, case: &Case<'_>, step: Step) -> Option<Answer> {
        let (user, method, path, body) = request(case, step);
        let token = case.world.token(user);
        self.send(|| {
            let request = self.client.request(method, &path).bearer_auth(&token);
            if body.is_null() { request } else { request.json(&body) }
        })
        .await
    }

    /// What the gateway says of a payment, and of its money.
    async fn notify(
        &self,
        case: &Case<'_>,
        step: Step,
        (nth, number): (Nth, i32),
        (status, money, name): (&str, Option<Money>, Option<Name>),
        expected: &str,
    ) -> Option<String> {
        let payment = format!("{}.{}.{number}", case.voucher_of(nth), case.order(nth));
        let mut body = match money {
            None => json!({ "payment_id": payment, "status": status }),
            Some(it) => notice(status, &payment, &case.transaction(nth, it), it.1.in_money()),
        };
        if let Some(name) = name {
            body["return_id"] = json!(return_id(case, nth, number, name));
        }
        let body = serde_json::to_vec(&body).unwrap();
        let signature = case.world.payment_key().sign(1, &body);
        let notice = || self.client.noticing(&body, &signature);
        let answer = match expected {
            "unavailable" => self.client.send(notice()).await,
            _ => self.send(notice).await?,
        };
        // Money that nobody here knows is shown to an administrator.
        let is_kept = self.forget_unmatched(case).await;
        let said = word(step, &answer);
        Some(if is_kept && said == "taken" { "unknown".to_owned() } else { said })
    }

    /// Whether money was kept that nobody here knows.
    async fn forget_unmatched(&self, case: &Case<'_>) -> bool {
        let kept = sqlx::query("delete from unmatched_payments");
        kept.execute(case.pool()).await.unwrap().rows_affected() > 0
    }

    async fn buy(&mut self, case: &Case<'_>, step: Step, expected: &str) -> Option<String> {
        let begun = Instant::now();
        loop {
            let said = word(step, &self.ask(case, step).await?);
            // A server remembers who came too soon, and says so before it asks the database why else this buyer gets nothing.
            if said == "too_many_requests" && expected == said {
                self.too_soon.push(step);
            } else if said == "too_many_requests"
                && expected != "ordered"
                && self.too_soon.contains(&step)
            {
                return Some(expected.to_owned());
            }
            // A server remembers for a moment that a buyer had an order (src/orders/README.md, row 11).
            let is_cached = said == "already_bought" && expected != said;
            if !is_cached || begun.elapsed() > CACHED_FOR {
                return Some(said);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The requests to a gateway that does all of them, and that says this of the payments of one of the orders.
    async fn gateway(&self, case: &Case<'_>, says: Option<(Nth, Said)>) -> Option<String> {
        let (database, purchases) = (case.world.database.clone(), Arc::clone(&self.app.purchases));
        let gateway = Arc::new(KeptPayments::default());
        let payments = |nth: Nth| {
            let (voucher, order) = (case.voucher_of(nth), case.order(nth).try_into().unwrap());
            (1..9).map(move |number| PaymentId { voucher, order, number })
        };
        if let Some((nth, said)) = says {
            let notice = match said {
                Said::Paid(it) => Notice::Succeeded(notices::Money {
                    transaction: case.transaction(nth, it),
                    amount: it.1.in_money(),
                    return_id: None,
                }),
                Said::Failed => Notice::Failed,
            };
            let answers = payments(nth).map(|payment| (payment, notice.clone()));
            gateway.answers.lock().unwrap().extend(answers);
        }
        let work = Outbox::of_gateway(database, purchases, gateway.clone());
        known(work.step().await)?;
        let mut messages = Vec::new();
        for it in gateway.refunded.lock().unwrap().iter() {
            let (refund, name) = it.refund_id.split_once('-').unwrap_or((&it.refund_id, "1"));
            let refund: PaymentId = refund.parse().unwrap();
            if let Some(nth) = case.nth(refund.order.get()) {
                let sum = (name_of(&it.transaction_id), it.amount);
                let asked = (nth, refund.number, name.parse().unwrap());
                messages.push(refund_message(asked, it.payment.number, sum));
            }
        }
        for it in gateway.cancelled.lock().unwrap().iter() {
            let it: PaymentId = it.parse().unwrap();
            let nth = case.nth(it.order.get());
            messages.extend(nth.map(|nth| format!("unwanted {nth}.{}", it.number)));
        }
        for it in gateway.questions.lock().unwrap().iter() {
            let nth = case.nth(it.order.get());
            messages.extend(nth.map(|nth| format!("asked {nth}.{}", it.number)));
        }
        if says.is_some() {
            self.forget_unmatched(case).await;
        }
        messages.sort();
        Some(messages.join(", "))
    }

    /// A step of the workers, or of the test.
    async fn work(&mut self, case: &Case<'_>, step: Step) -> Option<()> {
        let (database, purchases) = (case.world.database.clone(), Arc::clone(&self.app.purchases));
        match step {
            Step::Expire => {
                let ask_within = Duration::from_secs(ASK_WITHIN.unsigned_abs());
                let mut expiry = Expiry::new(database, purchases, ask_within);
                known(expiry.step().await).map(drop)?;
            }
            Step::Serve => {
                let mut work = LineWork::new(database, purchases);
                while known(work.step().await)? {}
            }
            Step::WindUp => {
                wind_up(case).await?;
                case.vouchers.iter().for_each(|voucher| purchases.voucher_changed(*voucher));
            }
            Step::Restart => *self = Self::new(case.world).await,
            Step::Pass(seconds) => pass(case.world, seconds).await,
            _ => unreachable!("{step:?} is a part of another step"),
        }
        Some(())
    }
}

/// Whose request takes a step, and what it asks.
fn request(case: &Case<'_>, step: Step) -> (i64, &'static str, String, Value) {
    let of_order = |user, nth, what| {
        (user, "POST", format!("/api/orders/{}/{what}", case.order(nth)), Value::Null)
    };
    let of_sale = |user, method, sale: Sale, what| {
        (user, method, format!("/api/vouchers/{}{what}", case.vouchers[sale]), Value::Null)
    };
    let edit = |sale, body| {
        let (user, method, path, _) = of_sale(ADMINISTRATOR, "PATCH", sale, "");
        (user, method, path, body)
    };
    match step {
        Step::Buy(buyer, sale) => of_sale(buyer, "POST", sale, "/orders"),
        Step::Enter(buyer, sale) => of_sale(buyer, "POST", sale, "/entries"),
        Step::Leave(buyer, sale) => of_sale(buyer, "DELETE", sale, "/entries"),
        Step::Pause(sale, is_paused) => edit(sale, json!({ "paused": is_paused })),
        Step::Restock(sale, more) => {
            edit(sale, json!({ "initial_stock": case.initial(sale) + i64::from(more) }))
        }
        Step::Open(nth) => of_order(case.buyer_of(nth), nth, "payments"),
        Step::Cancel(nth, Who::Buyer) => of_order(case.buyer_of(nth), nth, "cancellation"),
        Step::Cancel(nth, _) => of_order(ADMINISTRATOR, nth, "cancellation"),
        Step::Redeem(nth) => of_order(ADMINISTRATOR, nth, "redemption"),
        Step::Refund(nth) => of_order(ADMINISTRATOR, nth, "refund"),
        Step::Settle(nth) => of_order(ADMINISTRATOR, nth, "settlement"),
        step => unreachable!("{step:?} is no request"),
    }
}

/// What the answer says: what was done, or the code of the problem, or the state of the order that does not allow it.
fn word(step: Step, answer: &Answer) -> String {
    let done = match (answer.status, answer.body["code"].as_str()) {
        (200..300, _) => match step {
            Step::Buy(..) => "ordered",
            Step::Open(_) => {
                let payment: PaymentId = answer.text_of("payment_id").parse().unwrap();
                return format!("opened {}", payment.number);
            }
            Step::Enter(..) => match (answer.status, answer.body["place"].as_i64()) {
                (201, Some(place)) => return format!("entered as {place}"),
                (201, None) => "entered",
                _ => "entered_before",
            },
            Step::Leave(..) => "left",
            Step::Pause(..) | Step::Restock(..) => "changed",
            Step::Took(..) | Step::Failed(..) | Step::GaveBack(..) | Step::CameAgain(..) => "taken",
            _ => "done",
        },
        (409, Some("order_state")) => {
            return format!("refused {}", answer.text_of("order_status"));
        }
        (_, Some(code)) => {
            answer.problem(answer.status, code);
            code
        }
        _ => panic!("{answer:?}"),
    };
    done.to_owned()
}

impl Driver for OverHttp {
    async fn take(&mut self, case: &Case<'_>, step: Step, expected: &str) -> Option<String> {
        match step {
            Step::Buy(..) => self.buy(case, step, expected).await,
            // No such request can be written: a server does it by itself.
            Step::BuyAgain(_) => Some(expected.to_owned()),
            // Nor this one.
            Step::Restock(sale, more) if case.initial(sale) + i64::from(more) < 0 => {
                Some(expected.to_owned())
            }
            Step::Took(nth, number, money) => {
                let told = ("succeeded", Some(money), None);
                self.notify(case, step, (nth, number), told, expected).await
            }
            Step::Failed(nth, number) => {
                self.notify(case, step, (nth, number), ("failed", None, None), expected).await
            }
            Step::GaveBack(nth, number, money, by, theirs) => {
                let status = if by == By::Gateway { "refunded" } else { "charged_back" };
                let told = (status, Some(money), theirs.map(Name::Theirs));
                self.notify(case, step, (nth, number), told, expected).await
            }
            Step::CameAgain(nth, number, money, by, part) => {
                let status = if by == By::Gateway { "refund_failed" } else { "charge_back_won" };
                self.notify(case, step, (nth, number), (status, Some(money), part), expected).await
            }
            Step::Gateway => self.gateway(case, None).await,
            Step::Says(nth, said) => self.gateway(case, Some((nth, said))).await,
            Step::CancelSale(sale) => {
                // By the shell: servers learn of it within a second, and this one at once.
                let voucher = case.vouchers[sale];
                assert!(known(cancelled_sales::cancel(case.pool(), voucher).await)?);
                self.app.purchases.voucher_changed(voucher);
                Some("done".to_owned())
            }
            Step::Expire | Step::Serve | Step::WindUp | Step::Restart | Step::Pass(_) => {
                self.work(case, step).await.map(|()| String::new())
            }
            step => Some(word(step, &self.ask(case, step).await?)),
        }
    }

    fn sees(&self, step: Step, word: String) -> String {
        let is_of_money = matches!(step, Step::Took(..) | Step::GaveBack(..) | Step::CameAgain(..));
        let is_notice = is_of_money || matches!(step, Step::Failed(..));
        match (step, word.as_str()) {
            (_, "partial" | "other_amount" | "was_refunded") => "invalid_request".to_owned(),
            (_, "too_early") => "unavailable".to_owned(),
            (_, "unknown") if is_of_money => word,
            _ if is_notice => "taken".to_owned(),
            (Step::Leave(..), "not_entered") => "left".to_owned(),
            _ => word,
        }
    }
}

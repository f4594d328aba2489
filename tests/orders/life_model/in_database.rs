//! The steps of the model by the database's functions, in a session that a test may stop between two statements.

use seckill::model::VoucherId;
use seckill::store::payments::{PaymentId, keep_pay_url};
use seckill::store::vouchers::{self, Changed, StockChange, VoucherChange};
use seckill::store::{cancelled_sales, order_steps, payment_cancellations};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::shop::world::World;

use super::case::{self, Case, name_of};
use super::model::{Buyer, Money, Nth, Sale, Step, Who, Why, refund_message};
use super::runs::{Driver, known, pass, wind_up};

/// Offers that one call makes at most.
const OFFERS: usize = 3;

pub struct InDatabase {
    pub session: PgConnection,
}

impl InDatabase {
    pub async fn new(world: &World) -> Self {
        Self { session: PgConnection::connect(&world.database_url).await.unwrap() }
    }

    /// The only value of a statement.
    pub async fn say(&mut self, statement: String) -> Option<String> {
        let row = sqlx::query_scalar(AssertSqlSafe(statement.clone()));
        let row: Option<Option<String>> = row
            .fetch_optional(&mut self.session)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        row.flatten()
    }

    async fn says(&mut self, statement: String) -> String {
        let said = self.say(statement.clone()).await;
        said.unwrap_or_else(|| panic!("{statement} says nothing"))
    }

    async fn answered(&mut self, case: &Case, nth: Nth, number: i32) -> String {
        let (voucher, order) = (case.voucher_of(nth), case.order(nth));
        self.says(format!("select finish_refund({voucher}, {order}, {number})")).await
    }

    /// A step of an order: whether it was done, and else the state of the order.
    async fn step(&mut self, call: String) -> String {
        const WORD: &str =
            "(array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded'])[status]";
        self.says(format!(
            "select case when done then 'done' else 'refused ' || {WORD} end from {call}"
        ))
        .await
    }

    /// Calls the function of a purchase at `time`.
    async fn sell(&mut self, voucher: VoucherId, id: i64, buyer: Buyer, time: &str) -> String {
        let said = self.say(format!(
            "select reason from sell({voucher}, array[{id}], array[{buyer}], array({time}))"
        ));
        match said.await.as_deref() {
            None => "ordered".to_owned(),
            Some("too_soon") => "too_many_requests".to_owned(),
            Some(said) => said.to_owned(),
        }
    }

    async fn buy_again(&mut self, case: &Case, nth: Nth) -> String {
        let (voucher, id) = (case.voucher_of(nth), case.order(nth));
        let time =
            format!("select created_at from orders where id = {id} and voucher_id = {voucher}");
        self.sell(voucher, id, case.buyer_of(nth), &time).await
    }

    async fn open(&mut self, world: &World, case: &Case, nth: Nth) -> Option<String> {
        let (voucher, id, buyer) = (case.voucher_of(nth), case.order(nth), case.buyer_of(nth));
        let said = self.says(format!(
            "select concat_ws(' ', order_status, payment_number)
             from open_payment({voucher}, {id}, {buyer}, 4)"
        ));
        let said = said.await;
        let Some(number) = said.strip_prefix("1 ") else {
            return Some(format!("refused {}", case::status(said.parse().unwrap()).word()));
        };
        let payment =
            PaymentId { voucher, order: id.try_into().unwrap(), number: number.parse().unwrap() };
        known(keep_pay_url(world.database.pool(), payment, "https://pay.example/").await)?;
        Some(format!("opened {number}"))
    }

    /// Calls a function about money of a payment.
    async fn settle(
        &mut self,
        case: &Case,
        function: &str,
        (nth, number, money): Sum,
        more: &str,
    ) -> Option<String> {
        let (voucher, id) = (case.voucher_of(nth), case.order(nth));
        let (name, amount) = (case.transaction(nth, money), money.1.in_money());
        self.say(format!("select {function}({voucher}, {id}, {number}, '{name}', {amount}{more})"))
            .await
    }

    async fn took(&mut self, case: &Case, sum: Sum) -> String {
        match self.settle(case, "apply_payment", sum, "").await {
            Some(said) => said,
            None => self.settle(case, "judge_payment", sum, "").await.unwrap(),
        }
    }

    async fn gave_back(&mut self, case: &Case, sum: Sum, why: Why) -> String {
        let kind = if why == Why::Refunded { ", 2::smallint" } else { ", 3::smallint" };
        self.settle(case, "return_payment", sum, kind).await.unwrap()
    }

    async fn expire(&mut self, case: &Case) -> String {
        for voucher in case.vouchers {
            let ids = case.orders();
            let call = format!("select expire_orders({voucher}, array{ids:?}::bigint[])::text");
            self.says(call).await;
        }
        String::new()
    }

    async fn gateway(&mut self, world: &World, case: &Case) -> Option<String> {
        let pool = world.database.pool();
        let waits = sqlx::query_as(
            "select order_id, number, coalesce(announced, number), transaction_id, amount
             from refunds where status = 1 and voucher_id = any ($1)",
        );
        let waits = waits.bind(case.vouchers.map(VoucherId::get));
        let waits: Vec<(i64, i32, i32, String, i64)> = waits.fetch_all(pool).await.unwrap();
        let mut messages = Vec::new();
        for (order, number, there, transaction, amount) in waits {
            let nth = case.nth(order).unwrap();
            self.answered(case, nth, number).await;
            messages.push(refund_message(nth, number, there, (name_of(&transaction), amount)));
        }
        let now = known(order_steps::time(pool).await)?;
        for it in known(payment_cancellations::list_due(pool, now, 1_000).await)? {
            let claimed = known(payment_cancellations::claim(pool, it, now, now).await)?;
            let attempt = claimed.unwrap();
            known(payment_cancellations::record(pool, it, attempt, None, None).await)?;
            let nth = case.nth(it.order.get());
            messages.extend(nth.map(|nth| format!("unwanted {nth}.{}", it.number)));
        }
        messages.sort();
        Some(messages.join(", "))
    }

    /// `id`: that of the new entry, or null.
    async fn enter(&mut self, case: &Case, buyer: Buyer, sale: Sale, id: &str) -> String {
        let voucher = case.vouchers[sale];
        self.says(format!(
            "select case outcome when 'entered' then concat_ws(' as ', outcome, ahead + 1)
                    when 'too_soon' then 'too_many_requests' else outcome end
             from enter_line({voucher}, array[{buyer}], array[{id}])"
        ))
        .await
    }

    async fn serve(&mut self, case: &Case) -> String {
        for voucher in case.vouchers {
            let mut served = String::new();
            while served != "idle" {
                let ids: Vec<i64> = (0..OFFERS).map(|_| case.new_id()).collect();
                let call = format!("select serve_line({voucher}, array{ids:?}::bigint[])");
                served = self.says(call).await;
            }
        }
        String::new()
    }
}

/// What the gateway says of the money of a payment: of which order, its number, and the money.
type Sum = (Nth, i32, Money);

async fn change(world: &World, voucher: VoucherId, change: VoucherChange) -> Option<String> {
    let word = match known(vouchers::change(world.database.pool(), voucher, &change).await)? {
        Changed::Voucher(_) => "changed",
        Changed::SoldAlready => "stock_is_sold",
        Changed::SaleCancelled => "sale_cancelled",
        other => panic!("{other:?}"),
    };
    Some(word.to_owned())
}

impl Driver for InDatabase {
    async fn take(&mut self, world: &World, case: &Case, step: Step) -> Option<String> {
        // What a function about one order begins with.
        let of = |nth| format!("{}, {}", case.voucher_of(nth), case.order(nth));
        let nothing = VoucherChange::default();
        Some(match step {
            Step::Buy(buyer, sale) => {
                let (voucher, id) = (case.vouchers[sale], case.new_id());
                self.sell(voucher, id, buyer, "select sale_time()").await
            }
            Step::BuyAgain(nth) => self.buy_again(case, nth).await,
            Step::Open(nth) => return self.open(world, case, nth).await,
            Step::Took(nth, number, money) => self.took(case, (nth, number, money)).await,
            Step::Failed(nth, number) => {
                self.says(format!("select fail_payment({}, {number})", of(nth))).await
            }
            Step::GaveBack(nth, number, money, why) => {
                self.gave_back(case, (nth, number, money), why).await
            }
            Step::Cancel(nth, who) => {
                let who = if who == Who::Buyer { 1 } else { 2 };
                self.step(format!("cancel_order({}, {who}::smallint, 1)", of(nth))).await
            }
            Step::Redeem(nth) => self.step(format!("redeem_order({}, 9)", of(nth))).await,
            Step::Refund(nth) => self.step(format!("refund_order({}, 9)", of(nth))).await,
            Step::Settle(nth) => self.step(format!("settle_refund({}, 9)", of(nth))).await,
            Step::Expire => self.expire(case).await,
            Step::Gateway => return self.gateway(world, case).await,
            Step::Answered(nth, number) => self.answered(case, nth, number).await,
            Step::Pause(sale, is_paused) => {
                let paused = VoucherChange { paused: Some(is_paused), ..nothing };
                return change(world, case.vouchers[sale], paused).await;
            }
            Step::Restock(sale, more) => {
                let more = VoucherChange { stock: Some(StockChange::By(more)), ..nothing };
                return change(world, case.vouchers[sale], more).await;
            }
            Step::CancelSale(sale) => {
                let pool = world.database.pool();
                assert!(known(cancelled_sales::cancel(pool, case.vouchers[sale]).await)?);
                "done".to_owned()
            }
            Step::WindUp => return wind_up(world, case).await.map(|()| String::new()),
            Step::Enter(buyer, sale) => self.enter(case, buyer, sale, "gen_random_uuid()").await,
            Step::Leave(buyer, sale) => self.enter(case, buyer, sale, "null::uuid").await,
            Step::Serve => self.serve(case).await,
            Step::Pass(seconds) => {
                pass(world, seconds).await;
                String::new()
            }
            Step::Restart => String::new(),
            Step::ExpireBut(_) | Step::Draw | Step::Offer => {
                unreachable!("{step:?} is a part of another step")
            }
        })
    }

    fn sees(&self, _: Step, word: String) -> String {
        word
    }
}

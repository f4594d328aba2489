//! The steps of the model by the database's functions, in a session that a test may stop between two statements.

use seckill::model::voucher_terms::VoucherChange;
use seckill::store::Stop;
use seckill::store::messages::{self, Channel, MessageId, MessageKind};
use seckill::store::payments::{PaymentId, keep_pay_url};
use seckill::store::vouchers;
use seckill::store::{cancelled_sales, order_steps};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::shop::world::World;

use super::case::{self, Case, name_of};
use super::model::{
    ASK_WITHIN, By, Money, Name, Nth, PRICE, Said, Sale, Step, Who, refund_message,
};
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
    async fn say(&mut self, statement: String) -> Option<String> {
        let said = sqlx::query_scalar(AssertSqlSafe(statement.clone()));
        let said = said.fetch_one(&mut self.session).await;
        said.unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    async fn says(&mut self, statement: String) -> String {
        let said = self.say(statement.clone()).await;
        said.unwrap_or_else(|| panic!("{statement} says nothing"))
    }

    /// A step that is one statement: what it answers, or that an order in its state does not allow it.
    async fn ask(&mut self, case: &Case<'_>, step: Step) -> String {
        or_refused(self.says(statement(case, step)).await)
    }

    async fn open(&mut self, case: &Case<'_>, nth: Nth) -> Option<String> {
        let (voucher, id, buyer) = (case.voucher_of(nth), case.order(nth), case.buyer_of(nth));
        let said = self.says(format!(
            "select case order_status when 1 then 'opened ' || payment_number else order_status::text end
             from open_payment({voucher}, {id}, {buyer}, 4)"
        ));
        let said = said.await;
        if let Some(number) = said.strip_prefix("opened ") {
            let (order, number) = (id.try_into().unwrap(), number.parse().unwrap());
            let payment = PaymentId { voucher, order, number };
            known(keep_pay_url(case.pool(), payment, "https://pay.example/").await)?;
        }
        Some(or_refused(said))
    }

    async fn expire(&mut self, case: &Case<'_>) -> String {
        for voucher in case.vouchers {
            let ids = case.orders();
            let call = format!(
                "select expire_orders({voucher}, array{ids:?}::bigint[], {ASK_WITHIN})::text"
            );
            self.says(call).await;
        }
        String::new()
    }

    /// All that is due is sent to a gateway that does it, and that says this of a payment of one of the orders.
    async fn gateway(&mut self, case: &Case<'_>, says: Option<(Nth, Said)>) -> Option<String> {
        let refunds: Vec<Refund> = case.rows(REFUNDS).await;
        let (pool, mut said) = (case.pool(), Vec::new());
        let now = known(order_steps::time(pool).await)?;
        for it in known(messages::list_due(pool, Channel::Gateway, now, 1_000).await)? {
            let attempt = known(messages::claim(pool, it, now, now).await)?.unwrap();
            if let Some(nth) = case.nth(it.order_id.get()) {
                let says = says.and_then(|(of, said)| (of == nth).then_some(said));
                said.extend(self.send(case, (nth, it), &refunds, says).await);
            }
            known(messages::record(pool, it, attempt, None, None).await)?;
        }
        said.sort();
        Some(said.join(", "))
    }

    /// Sends a message of an order, if it is still of use.
    async fn send(
        &mut self,
        case: &Case<'_>,
        (nth, message): (Nth, MessageId),
        refunds: &[Refund],
        says: Option<Said>,
    ) -> Option<String> {
        let number = message.number;
        match message.kind {
            MessageKind::CancelPayment => Some(format!("unwanted {nth}.{number}")),
            MessageKind::Refund => {
                let key = (message.order_id.get(), number);
                let refund = refunds.iter().find(|refund| (refund.0, refund.1) == key).unwrap();
                let (_, _, name, there, transaction, amount) = refund;
                let asked = (nth, number, *name);
                self.says(answered(case, asked, *amount)).await;
                Some(refund_message(asked, *there, (name_of(transaction), *amount)))
            }
            MessageKind::AskPayment if !self.is_unpaid(case, nth).await => None,
            MessageKind::AskPayment => {
                match says {
                    Some(Said::Paid(money)) => {
                        self.took(case, nth, number, money).await;
                    }
                    Some(Said::Failed) => {
                        self.ask(case, Step::Failed(nth, number)).await;
                    }
                    None => {}
                }
                self.ask(case, Step::NotPaid(nth, number)).await;
                Some(format!("asked {nth}.{number}"))
            }
            kind => unreachable!("{kind:?} is no message to the gateway"),
        }
    }

    async fn is_unpaid(&mut self, case: &Case<'_>, nth: Nth) -> bool {
        let status = "select status::text from orders where (voucher_id, id)";
        self.says(format!("{status} = ({})", of(case, nth))).await == "1"
    }

    async fn took(&mut self, case: &Case<'_>, nth: Nth, number: i32, money: Money) -> String {
        let sum = sum(case, nth, number, money);
        match self.say(format!("select apply_payment({sum})")).await {
            Some(said) => said,
            None => self.says(format!("select judge_payment({sum})")).await,
        }
    }

    async fn serve(&mut self, case: &Case<'_>) -> String {
        for voucher in case.vouchers {
            self.says(format!("select draw_entries({voucher})")).await;
            let mut served = "offered".to_owned();
            while served == "offered" {
                let ids: Vec<i64> = (0..OFFERS).map(|_| case.new_id()).collect();
                let call = format!(
                    "select outcome from offer_to_line({voucher}, array{ids:?}::bigint[], false)"
                );
                served = self.says(call).await;
            }
        }
        String::new()
    }
}

/// The voucher and the order.
fn of(case: &Case<'_>, nth: Nth) -> String {
    format!("{}, {}", case.voucher_of(nth), case.order(nth))
}

/// What the gateway says of the money of a payment.
fn sum(case: &Case<'_>, nth: Nth, number: i32, money: Money) -> String {
    let (name, amount) = (case.transaction(nth, money), money.1.in_money());
    format!("{}, {number}, '{name}', {amount}", of(case, nth))
}

/// By the gateway, which has a name for it, or none.
fn by_the_gateway(of: &str, by: By, name: Option<String>) -> String {
    let by = if by == By::Gateway { 2 } else { 3 };
    let name = name.map_or("null".to_owned(), |name| format!("'{name}'"));
    format!("{of}, {by}::smallint, {name}")
}

/// What stands in `return_id`.
pub fn return_id(case: &Case<'_>, nth: Nth, number: i32, name: Name) -> String {
    match name {
        Name::Ours(name) => refund_id(case, (nth, number, name)),
        Name::Theirs(name) => format!("r{name}"),
    }
}

/// The name by which the gateway was asked for the money of a payment the first, second, ... time.
fn refund_id(case: &Case<'_>, (nth, number, name): (Nth, i32, i32)) -> String {
    let name = if name > 1 { format!("-{name}") } else { String::new() };
    format!("{}.{}.{number}{name}", case.voucher_of(nth), case.order(nth))
}

/// The statement that writes that the gateway has given so much back, as it was asked by this name.
fn answered(case: &Case<'_>, asked: (Nth, i32, i32), amount: i64) -> String {
    let (nth, number, _) = asked;
    format!(
        "select finish_refund({}, {number}, '{}', {amount})",
        of(case, nth),
        refund_id(case, asked)
    )
}

/// The statement that takes a step, and says what it answers, or the number of the state of the order.
fn statement(case: &Case<'_>, step: Step) -> String {
    let of = |nth| of(case, nth);
    let done = |call| {
        format!(
            "select case refusal when 'order_state' then order_status::text else coalesce(refusal, 'done') end
             from {call}"
        )
    };
    let sell = |voucher, id, buyer, time| {
        format!(
            "select coalesce((
                select reason from sell({voucher}, array[{id}], array[{buyer}], array({time}))), 'ordered')"
        )
    };
    // `id`: that of the new entry, or null.
    let enter = |buyer, sale: Sale, id| {
        let voucher = case.vouchers[sale];
        format!(
            "select case outcome when 'entered' then concat_ws(' as ', outcome, ahead + 1) else outcome end
             from enter_line({voucher}, array[{buyer}], array[{id}])"
        )
    };
    match step {
        Step::Buy(buyer, sale) => {
            let (id, time) = (case.new_id(), "select sale_time()".to_owned());
            sell(case.vouchers[sale], id, buyer, time)
        }
        Step::BuyAgain(nth) => {
            let (voucher, id) = (case.voucher_of(nth), case.order(nth));
            let time =
                format!("select created_at from orders where id = {id} and voucher_id = {voucher}");
            sell(voucher, id, case.buyer_of(nth), time)
        }
        Step::Failed(nth, number) => format!("select fail_payment({}, {number})", of(nth)),
        Step::GaveBack(nth, number, money, by, theirs) => {
            let theirs = theirs.map(|name| return_id(case, nth, number, Name::Theirs(name)));
            let sum = sum(case, nth, number, money);
            format!("select return_payment({})", by_the_gateway(&sum, by, theirs))
        }
        Step::CameAgain(nth, number, money, by, part) => {
            let part = part.map(|name| return_id(case, nth, number, name));
            let sum = sum(case, nth, number, money);
            format!("select undo_return({})", by_the_gateway(&sum, by, part))
        }
        Step::Cancel(nth, who) => {
            let who = if who == Who::Buyer { 1 } else { 2 };
            done(format!("cancel_order({}, {who}::smallint, 1)", of(nth)))
        }
        Step::Redeem(nth) => done(format!("redeem_order({}, 9)", of(nth))),
        Step::Refund(nth) => done(format!("refund_order({}, 9)", of(nth))),
        Step::Settle(nth) => done(format!("settle_refund({}, 9)", of(nth))),
        Step::Answered(nth, number) => answered(case, (nth, number, 1), PRICE),
        Step::NotPaid(nth, number) => {
            format!("select gateway_answered({}, {number})::text", of(nth))
        }
        Step::Enter(buyer, sale) => enter(buyer, sale, "gen_random_uuid()"),
        Step::Leave(buyer, sale) => enter(buyer, sale, "null::uuid"),
        step => unreachable!("{step:?} is more than one statement"),
    }
}

/// As [`REFUNDS`] selects it.
type Refund = (i64, i32, i32, i32, String, i64);

/// The refunds that wait for the gateway.
const REFUNDS: &str = "select r.order_id, r.number, r.try, coalesce(p.announced, r.number), p.transaction_id,
        left_of(r.voucher_id, p.transaction_id, p.paid_amount)
    from refunds r join payments p using (voucher_id, order_id, number) join messages m using (voucher_id, order_id, number)
    where r.status = 1 and m.kind = 'refund' and m.next_attempt_at <= sale_time() and voucher_id = any ($1)";

/// What was done; or, where a number was said, that an order in this state does not allow it.
fn or_refused(said: String) -> String {
    said.parse().map_or(said, |status| case::status(status).refuses())
}

async fn change(case: &Case<'_>, sale: Sale, change: VoucherChange) -> Option<String> {
    let changed = vouchers::change(case.pool(), case.vouchers[sale], &change, None).await;
    match changed {
        Ok(_) => Some("changed".to_owned()),
        Err(Stop::Refused(refusal)) => Some(refusal.code.as_str().to_owned()),
        Err(Stop::Failed(error)) => known(Err(error)),
    }
}

impl Driver for InDatabase {
    async fn take(&mut self, case: &Case<'_>, step: Step, _: &str) -> Option<String> {
        let nothing = VoucherChange::default();
        Some(match step {
            Step::Open(nth) => return self.open(case, nth).await,
            Step::Took(nth, number, money) => self.took(case, nth, number, money).await,
            Step::Expire => self.expire(case).await,
            Step::Gateway => return self.gateway(case, None).await,
            Step::Says(nth, said) => return self.gateway(case, Some((nth, said))).await,
            Step::Pause(sale, is_paused) => {
                let paused = VoucherChange { paused: Some(is_paused), ..nothing };
                return change(case, sale, paused).await;
            }
            Step::Restock(sale, more) => {
                let more = VoucherChange { more_stock: more, ..nothing };
                return change(case, sale, more).await;
            }
            Step::CancelSale(sale) => {
                assert!(known(cancelled_sales::cancel(case.pool(), case.vouchers[sale]).await)?);
                "done".to_owned()
            }
            Step::WindUp => return wind_up(case).await.map(|()| String::new()),
            Step::Serve => self.serve(case).await,
            Step::Pass(seconds) => {
                pass(case.world, seconds).await;
                String::new()
            }
            Step::Restart => String::new(),
            Step::ExpireBut(_) | Step::Draw | Step::Offer => {
                unreachable!("{step:?} is a part of another step")
            }
            step => self.ask(case, step).await,
        })
    }
}

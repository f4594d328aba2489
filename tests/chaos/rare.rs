//! States that are rare, and that rounds must have come to: what no round reaches no round tests. Each has a name, and a
//! query of what a round has left behind in its database.

use std::collections::BTreeMap;

use sqlx::PgPool;

/// After so many rounds each of them must have been reached.
const ROUNDS: usize = 100;

const STATES: [(&str, &str); 17] = [
    (
        "an order whose time was over was paid while the gateway was asked",
        "from orders o where asked_until is not null and paid_at > pay_by and not exists (
             select from order_steps s where s.order_id = o.id and s.step = 'cancelled')",
    ),
    (
        "the gateway was asked, and time cancelled the order",
        "from orders where asked_until is not null and cancelled_by = 3",
    ),
    ("an order that time had cancelled was revived", "from order_steps where step = 'revived'"),
    (
        "money came too late, and went back",
        "from refunds where reason = 'order_cancelled' and status = 2",
    ),
    (
        "money was taken twice, and went back once",
        "from refunds where reason = 'order_paid' and status = 2",
    ),
    ("a wrong amount went back", "from refunds where reason = 'wrong_amount' and status = 2"),
    ("a second sum was taken for one payment", "from payments where announced is not null"),
    (
        "money went back before it came",
        "from returns b join payments p using (voucher_id, transaction_id) where b.returned_at <= p.confirmed_at and b.done_by > 1",
    ),
    (
        "the gateway gave back what waited to be given back",
        "from returns where done_by = 2 and refund_id is not null",
    ),
    (
        "a refund was asked for again",
        "from refunds join messages using (voucher_id, order_id, number)
         where kind = 'refund' and attempts > 1 and refunds.status = 2",
    ),
    (
        "the gateway was told again that a payment is not wanted",
        "from messages where kind = 'cancel_payment' and attempts > 1",
    ),
    ("a used voucher was charged back", "from order_steps where step = 'charged_back'"),
    ("a charge-back was won", "from order_steps where step = 'charge_back_won'"),
    ("a refund failed after all", "from order_steps where step = 'refund_failed'"),
    (
        "what came back was offered to the line",
        "from entries e join vouchers v on v.id = e.voucher_id where ended_at > drawn_at and status = 2 and place > 8",
    ),
    (
        "an offer was missed",
        "from entries e join orders o on o.id = e.order_id where o.cancelled_by = 3",
    ),
    ("a buyer left the line", "from entries where status = 3 and place > 0"),
];

/// How many rounds have come to each of them.
#[derive(Debug)]
pub struct Reached(BTreeMap<&'static str, usize>);

/// Of the tables that a query may name, what is of these vouchers.
const OF_THE_ROUND: &str =
    "with orders as (select * from public.orders where voucher_id = any ($1)),
    order_steps as (select * from public.order_steps where voucher_id = any ($1)),
    payments as (select * from public.payments where voucher_id = any ($1)),
    refunds as (select * from public.refunds where voucher_id = any ($1)),
    messages as (select * from public.messages where voucher_id = any ($1)),
    returns as (select * from public.returns where voucher_id = any ($1)),
    entries as (select * from public.entries where voucher_id = any ($1))";

/// Which of them this round has come to.
pub async fn look(pool: &PgPool, vouchers: [i64; 2]) -> Vec<&'static str> {
    let mut reached = Vec::new();
    for (name, query) in STATES {
        let query = format!("{OF_THE_ROUND} select exists (select {query})");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(vouchers);
        if query.fetch_one(pool).await.unwrap() {
            reached.push(name);
        }
    }
    reached
}

impl Default for Reached {
    fn default() -> Self {
        Self(STATES.iter().map(|(name, _)| (*name, 0)).chain([(FOUND_AGAIN, 0)]).collect())
    }
}

/// Not in the database: only its buyer knows.
const FOUND_AGAIN: &str = "an order whose answer was lost was found again";

impl Reached {
    pub fn count(&mut self, reached: &[&'static str], found_again: usize) {
        let found_again = (found_again > 0).then_some(FOUND_AGAIN);
        for name in reached.iter().copied().chain(found_again) {
            *self.0.get_mut(name).unwrap() += 1;
        }
    }

    /// Of so many rounds.
    pub fn judge(&self, rounds: usize) {
        let never: Vec<_> = self.0.iter().filter(|(_, count)| **count == 0).collect();
        assert!(rounds < ROUNDS || never.is_empty(), "no round came to: {never:?}");
    }
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("rounds that came to a rare state:")?;
        self.0.iter().try_for_each(|(name, count)| write!(f, "\n  {count:4}  {name}"))
    }
}

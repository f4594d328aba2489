//! Two vouchers of their own in a world, for one sequence of steps, and what the database says of them in the words of the model.

use std::cell::{Cell, RefCell};

use chrono::{DateTime, TimeDelta, Utc};
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, VoucherId};
use seckill::purchase::audit;
use sqlx::FromRow;
use sqlx::postgres::{PgPool, PgRow};
use testkit::shop::world::World;

use super::model::Status::{self, *};
use super::model::{
    Back, Buyer, By, Entry, EntryState, HeldFor, Money, Nth, Order, PAY_WITHIN, PRICE, Payment,
    Return, Sale, Shop, Terms, Voucher, Who,
};

/// The vouchers, and the orders in the sequence in which they were placed.
pub struct Case<'a> {
    pub world: &'a World,
    pub vouchers: [VoucherId; 2],
    terms: [Terms; 2],
    begin: DateTime<Utc>,
    /// As the database was last read: the ids of the orders, the shop, and the revisions of the sales.
    ids: RefCell<Vec<i64>>,
    shop: RefCell<Shop>,
    revisions: Cell<[i64; 2]>,
    next_id: Cell<i64>,
}

/// As [`ORDERS`] selects it.
type OrderRow = (i64, i64, i64, i16, Time, Time, Time, Option<i16>, bool, i64, Vec<String>);
type Time = Option<DateTime<Utc>>;

/// As [`PAYMENTS`] selects it.
type PaymentRow = (
    i64,
    i16,
    Option<String>,
    Option<i64>,
    Option<i32>,
    bool,
    Option<String>,
    Option<i32>,
    Time,
    bool,
    bool,
);

const ORDERS: &str = "select o.id, o.voucher_id, o.user_id, o.status, o.pay_by,
        case o.status when 1 then o.asked_until end as asked_until, o.cancelled_at, o.cancelled_by,
        o.charged_back_at is not null as is_charged_back, o.returned_amount,
        array(select s.step || ' by ' || actor.of[s.actor] || ': ' || word.of[s.status_before] || ' to ' || word.of[s.status_after] from order_steps s
              where s.order_id = o.id and s.voucher_id = o.voucher_id order by s.number) as log
    from (select array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded', 'refundingagain'] as of) word,
        (select array['buyer', 'administrator', 'time', 'gateway'] as of) actor, orders o
    left join entries e on e.order_id = o.id and e.voucher_id = o.voucher_id
    where o.voucher_id = any ($1)
    order by array_position($2, o.id), o.voucher_id, e.place, o.id";

const PAYMENTS: &str = "select p.order_id, p.status, p.transaction_id, p.paid_amount, p.announced,
        p.reason is not distinct from 'charge_back_won' as is_replaced, r.reason, r.try,
        case r.status when 1 then m.next_attempt_at end as due, c.next_attempt_at is not null as is_unwanted,
        o.status = 1 and a.next_attempt_at is not null as is_asked
    from payments p left join refunds r using (voucher_id, order_id, number)
    join orders o on (o.voucher_id, o.id) = (p.voucher_id, p.order_id)
    left join messages m on (m.voucher_id, m.order_id, m.number, m.kind) = (p.voucher_id, p.order_id, p.number, 'refund')
    left join messages c on (c.voucher_id, c.order_id, c.number, c.kind) = (p.voucher_id, p.order_id, p.number, 'cancel_payment')
    left join messages a on (a.voucher_id, a.order_id, a.number, a.kind) = (p.voucher_id, p.order_id, p.number, 'ask_payment')
    where p.voucher_id = any ($1) order by p.number";

const SALES: &str =
    "select voucher_id, revision, stock, initial_stock, held_for, paused, cancelled_at is not null
    from seckill_vouchers where voucher_id = any ($1)";

const RETURNS: &str =
    "select voucher_id, transaction_id, amount, done_by, order_id, refund_id, return_id, undone_at is not null, is_early
    from returns where voucher_id = any ($1) order by transaction_id, number";

const ENTRIES: &str =
    "select voucher_id, user_id, status, place, order_id, entered_at < draw_time and place > 0,
        times_left, case status when 3 then ended_at end
    from entries join vouchers v on v.id = voucher_id where voucher_id = any ($1)";

const LOTS: &str =
    "select e.voucher_id, e.user_id from entries e join vouchers v on v.id = e.voucher_id
    where e.voucher_id = any ($1) and e.entered_at < v.draw_time and e.place > 0 order by e.place";

/// As [`RETURNS`] selects it.
type ReturnRow = (i64, String, i64, i16, i64, Option<String>, Option<String>, bool, bool);

/// As [`ENTRIES`] selects it.
type EntryRow = (i64, i64, i16, Option<i64>, Option<i64>, Option<bool>, i32, Time);

const HELD_FOR: [HeldFor; 3] = [HeldFor::Anybody, HeldFor::Drawn, HeldFor::Line];
const STATUSES: [Status; 7] = [Unpaid, Paid, Used, Cancelled, Refunding, Refunded, RefundingAgain];
const WHO: [Who; 3] = [Who::Buyer, Who::Administrator, Who::Time];
const BY: [By; 4] = [By::Asked, By::Gateway, By::ChargeBack, By::Administrator];

/// The model's name of the money: see [`Case::transaction`].
pub fn name_of(transaction: &str) -> u8 {
    let digits = transaction[1..].split(' ').next().unwrap();
    digits.parse().unwrap()
}

/// By its number in the database.
pub fn status(number: i16) -> Status {
    nth(&STATUSES, number)
}

fn nth<T: Copy>(of: &[T], number: i16) -> T {
    of[usize::try_from(number).unwrap() - 1]
}

impl<'a> Case<'a> {
    /// Two days after the case before, whose sales are over then.
    pub async fn new(world: &'a World, terms: [Terms; 2]) -> Self {
        world.set_time(world.clock.now() + TimeDelta::days(2)).await;
        let begin = world.clock.now();
        let at = |seconds: i64| begin + TimeDelta::seconds(seconds);
        let mut vouchers = Vec::new();
        for it in &terms {
            let new = NewVoucher {
                price: it.is_priced.then_some(PRICE),
                pay_within_s: i32::try_from(PAY_WITHIN).ok(),
                line: Some(it.has_line),
                draw_time: it.draw.map(at),
                ..NewVoucher::free("100 for 80", it.stock as i32, at(it.begin), at(it.end))
            };
            vouchers.push(world.new_voucher(&new).await.id);
        }
        Self {
            world,
            vouchers: [vouchers[0], vouchers[1]],
            terms,
            begin,
            ids: RefCell::default(),
            shop: RefCell::new(Shop::new(terms)),
            revisions: Cell::default(),
            next_id: Cell::new(vouchers[0].get() * 10_000),
        }
    }

    pub fn pool(&self) -> &PgPool {
        self.world.database.pool()
    }

    pub fn order(&self, nth: Nth) -> i64 {
        self.ids.borrow()[nth]
    }

    pub fn voucher_of(&self, nth: Nth) -> VoucherId {
        self.vouchers[self.shop.borrow().orders[nth].sale]
    }

    pub fn buyer_of(&self, nth: Nth) -> Buyer {
        self.shop.borrow().orders[nth].buyer
    }

    /// How many were put on sale.
    pub fn initial(&self, sale: Sale) -> i64 {
        self.shop.borrow().vouchers[sale].initial
    }

    pub fn orders(&self) -> Vec<i64> {
        self.ids.borrow().clone()
    }

    /// Which order it is; `None`: another case's.
    pub fn nth(&self, order: i64) -> Option<Nth> {
        self.ids.borrow().iter().position(|id| *id == order)
    }

    /// Those of the sales.
    pub fn revisions(&self) -> [i64; 2] {
        self.revisions.get()
    }

    /// An id that no order has.
    pub fn new_id(&self) -> i64 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }

    /// The gateway's name of the money.
    pub fn transaction(&self, nth: Nth, Money(name, _): Money) -> String {
        format!("m{name} of {}", self.voucher_of(nth))
    }

    fn sale(&self, voucher: i64) -> Sale {
        self.vouchers.iter().position(|it| it.get() == voucher).unwrap()
    }

    fn seconds(&self, time: DateTime<Utc>) -> i64 {
        (time - self.begin).num_seconds()
    }

    fn ids(&self) -> [i64; 2] {
        self.vouchers.map(VoucherId::get)
    }

    /// What a statement selects of the vouchers `$1`.
    pub async fn rows<T>(&self, statement: &'static str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        sqlx::query_as(statement).bind(self.ids()).fetch_all(self.pool()).await.unwrap()
    }

    /// The buyers in the order that a draw gave them.
    pub async fn lots(&self) -> [Vec<Buyer>; 2] {
        let mut lots = [const { Vec::new() }; 2];
        for (voucher, buyer) in self.rows::<(i64, i64)>(LOTS).await {
            lots[self.sale(voucher)].push(buyer);
        }
        lots
    }

    /// What the database says.
    pub async fn read(&self) -> Shop {
        let mut shop = Shop::new(self.terms);
        shop.now = self.seconds(self.world.clock.now());
        shop.orders = self.read_orders().await;
        self.read_payments(&mut shop.orders).await;
        self.read_vouchers(&mut shop.vouchers).await;
        self.shop.replace(shop.clone());
        shop.sorted()
    }

    async fn read_orders(&self) -> Vec<Order> {
        let rows = sqlx::query_as(ORDERS).bind(self.ids()).bind(self.orders());
        let rows: Vec<OrderRow> = rows.fetch_all(self.pool()).await.unwrap();
        let (mut ids, mut orders) = (Vec::new(), Vec::new());
        for (
            id,
            voucher,
            buyer,
            number,
            pay_by,
            asked_until,
            cancelled_at,
            by,
            is_charged_back,
            returned,
            log,
        ) in rows
        {
            ids.push(id);
            orders.push(Order {
                buyer,
                sale: self.sale(voucher),
                status: status(number),
                pay_by: pay_by.map(|at| self.seconds(at)),
                asked_until: asked_until.map(|at| self.seconds(at)),
                cancelled: cancelled_at.map(|at| (nth(&WHO, by.unwrap()), self.seconds(at))),
                is_charged_back,
                returned,
                payments: Vec::new(),
                log,
            });
        }
        self.ids.replace(ids);
        orders
    }

    async fn read_payments(&self, orders: &mut [Order]) {
        let rows: Vec<PaymentRow> = self.rows(PAYMENTS).await;
        for (
            order,
            status,
            transaction,
            paid,
            announced,
            is_replaced,
            reason,
            name,
            due,
            is_unwanted,
            is_asked,
        ) in rows
        {
            let due = due.map(|at| self.seconds(at));
            let refund = |reason| Back { reason, name: name.unwrap(), due };
            orders[self.nth(order).unwrap()].payments.push(Payment {
                status,
                money: transaction.map(|it| (name_of(&it), paid.unwrap())),
                announced,
                is_replaced,
                refund: reason.map(refund),
                is_unwanted,
                is_asked,
            });
        }
    }

    async fn read_vouchers(&self, vouchers: &mut [Voucher; 2]) {
        let sales: Vec<(i64, i64, i32, i32, i16, bool, bool)> = self.rows(SALES).await;
        let mut revisions = self.revisions.get();
        for (voucher, revision, stock, initial, held_for, is_paused, is_cancelled) in sales {
            revisions[self.sale(voucher)] = revision;
            let voucher = &mut vouchers[self.sale(voucher)];
            (voucher.stock, voucher.initial) = (stock.into(), initial.into());
            voucher.held_for = nth(&HELD_FOR, held_for + 1);
            (voucher.is_paused, voucher.is_cancelled) = (is_paused, is_cancelled);
        }
        self.revisions.set(revisions);
        let returns: Vec<ReturnRow> = self.rows(RETURNS).await;
        for (voucher, transaction, amount, by, order, ours, theirs, is_undone, is_early) in returns
        {
            vouchers[self.sale(voucher)].returns.push(Return {
                money: name_of(&transaction),
                order: self.nth(order).unwrap(),
                amount,
                by: nth(&BY, by),
                // `7.8.1` is the first one, `7.8.1-2` the second.
                ours: ours
                    .map(|it| it.split_once('-').map_or(1, |(_, name)| name.parse().unwrap())),
                theirs: theirs.map(|it| it[1..].parse().unwrap()),
                is_undone,
                is_early,
            });
        }
        let entries: Vec<EntryRow> = self.rows(ENTRIES).await;
        for (voucher, buyer, status, place, order, is_drawn, times_left, left_at) in entries {
            let state = match order {
                Some(order) => EntryState::Offered(self.nth(order).unwrap()),
                None => nth(&[EntryState::Waits, EntryState::Gone, EntryState::Gone], status),
            };
            vouchers[self.sale(voucher)].entries.push(Entry {
                buyer,
                state,
                place,
                is_drawn: is_drawn == Some(true),
                times_left: times_left.try_into().unwrap(),
                left_at: left_at.map(|at| self.seconds(at)),
            });
        }
    }

    /// What an audit of a voucher finds that it must not find, or does not find that it must; `shop` is what should be.
    /// Until the workers are done, stock may be where nobody can buy it.
    pub async fn wrong_audit(
        &self,
        shop: &Shop,
        sale: Sale,
        workers_are_done: bool,
    ) -> Option<String> {
        let audits = audit::run(self.pool(), Some(self.vouchers[sale])).await.unwrap();
        let mut violations: Vec<_> = audits.into_iter().flat_map(|it| it.violations).collect();
        violations.retain(|it| workers_are_done || it.promise.to_string() != "no_stuck_stock");
        let (by_gateway, wrong): (Vec<_>, Vec<_>) = violations.into_iter().partition(|it| {
            it.what.contains("went back twice") || it.what.contains("as the gateway says")
        });
        let is_named = shop.is_named(sale);
        (!wrong.is_empty() || by_gateway.is_empty() == is_named).then(|| {
            format!("{wrong:?}, {by_gateway:?}, and the gateway should be named: {is_named}")
        })
    }
}

impl Shop {
    /// What is of one voucher.
    pub fn of(&self, sale: Sale) -> (&Voucher, Vec<&Order>) {
        (&self.vouchers[sale], self.orders.iter().filter(|order| order.sale == sale).collect())
    }

    /// The same, whatever the sequence of entries and of what went back.
    pub fn sorted(mut self) -> Self {
        for voucher in &mut self.vouchers {
            voucher.entries.sort_by_key(|entry| (entry.place, entry.buyer));
            // Each in its own order.
            voucher.returns.sort_by_key(|it| it.money);
        }
        self
    }
}

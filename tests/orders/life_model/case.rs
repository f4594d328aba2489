//! Two vouchers of their own in a world, for one sequence of steps, and what the database says of them in the words of the model.

use std::cell::{Cell, RefCell};

use chrono::{DateTime, TimeDelta, Utc};
use seckill::model::{Clock, VoucherId};
use seckill::purchase::audit::{self, Violation};
use seckill::store::vouchers::{NewDraw, NewVoucher};
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use testkit::shop::world::World;

use super::model::{
    Back, Buyer, By, Entry, EntryState, HeldFor, Money, Nth, Order, PAY_WITHIN, PRICE, Payment,
    Sale, Shop, Status, Terms, Voucher, Who, Why,
};

/// The vouchers, and the orders in the sequence in which they were placed.
pub struct Case {
    pub vouchers: [VoucherId; 2],
    terms: [Terms; 2],
    begin: DateTime<Utc>,
    orders: RefCell<Vec<OfOrder>>,
    initial: Cell<[i64; 2]>,
    revisions: Cell<[i64; 2]>,
    next_id: Cell<i64>,
}

/// What a step needs to know of an order that it names.
#[derive(Clone, Copy)]
struct OfOrder {
    id: i64,
    sale: Sale,
    buyer: Buyer,
}

/// As [`ORDERS`] selects it.
type OrderRow = (
    i64,
    i64,
    i64,
    i16,
    Option<DateTime<Utc>>,
    Option<DateTime<Utc>>,
    Option<i16>,
    bool,
    Vec<String>,
);

/// As [`PAYMENTS`] selects it.
type PaymentRow =
    (i64, i16, Option<String>, Option<i64>, Option<i32>, Option<String>, Option<i16>, bool, bool);

const ORDERS: &str = "select o.id, o.voucher_id, o.user_id, o.status, o.pay_by, o.cancelled_at, o.cancelled_by,
        o.charged_back_at is not null as is_charged_back,
        array(select s.step || ' by ' || actor.of[s.actor] || ': ' || word.of[s.status_before] || ' to ' || word.of[s.status_after] from order_steps s
              where s.order_id = o.id and s.voucher_id = o.voucher_id order by s.number) as log
    from (select array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded'] as of) word,
        (select array['buyer', 'administrator', 'time', 'gateway'] as of) actor, orders o
    left join entries e on e.order_id = o.id and e.voucher_id = o.voucher_id
    where o.voucher_id = any ($1)
    order by array_position($2, o.id), o.voucher_id, e.place, o.id";

const PAYMENTS: &str = "select p.order_id, p.status, p.transaction_id, p.paid_amount, p.announced, r.reason,
        r.done_by, r.given_back_twice_at is not null as is_twice, c.next_attempt_at is not null as is_unwanted
    from payments p left join refunds r using (voucher_id, order_id, number)
    left join payment_cancellations c using (voucher_id, order_id, number)
    where p.voucher_id = any ($1) order by p.number";

const SALES: &str =
    "select voucher_id, revision, stock, initial_stock, held_for, paused, cancelled_at is not null
    from seckill_vouchers where voucher_id = any ($1)";

const EARLY: &str =
    "select voucher_id, transaction_id, amount, done_by, order_id, told_at from early_returns
    where voucher_id = any ($1)";

const ENTRIES: &str =
    "select voucher_id, user_id, status, place, order_id from entries where voucher_id = any ($1)";

/// As [`EARLY`] selects it.
type EarlyRow = (i64, String, i64, i16, i64, DateTime<Utc>);

/// As [`ENTRIES`] selects it.
type EntryRow = (i64, i64, i16, Option<i64>, Option<i64>);

const HELD_FOR: [HeldFor; 3] = [HeldFor::Anybody, HeldFor::Drawn, HeldFor::Line];
const STATUSES: [Status; 6] = [
    Status::Unpaid,
    Status::Paid,
    Status::Used,
    Status::Cancelled,
    Status::Refunding,
    Status::Refunded,
];
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

impl Case {
    /// Two days after the case before, whose sales are over then.
    pub async fn new(world: &World, terms: [Terms; 2]) -> Self {
        world.set_time(world.clock.now() + TimeDelta::days(2)).await;
        let begin = world.clock.now();
        let at = |seconds: i64| begin + TimeDelta::seconds(seconds);
        let mut vouchers = Vec::new();
        for it in &terms {
            let new = NewVoucher {
                price: if it.is_priced { PRICE } else { 0 },
                pay_within_s: i32::try_from(PAY_WITHIN).unwrap(),
                has_line: it.has_line,
                draw: it.draw.map(|draw| NewDraw { time: at(draw), beacon: String::new() }),
                ..NewVoucher::free("100 for 80", it.stock as i32, at(it.begin), at(it.end))
            };
            vouchers.push(world.new_voucher(&new).await.id);
        }
        let vouchers = [vouchers[0], vouchers[1]];
        let next_id = Cell::new(vouchers[0].get() * 10_000);
        let initial = Cell::new(terms.map(|it| it.stock));
        Self {
            vouchers,
            terms,
            begin,
            orders: RefCell::default(),
            initial,
            revisions: Cell::default(),
            next_id,
        }
    }

    pub fn order(&self, nth: Nth) -> i64 {
        self.orders.borrow()[nth].id
    }

    pub fn voucher_of(&self, nth: Nth) -> VoucherId {
        self.vouchers[self.orders.borrow()[nth].sale]
    }

    pub fn buyer_of(&self, nth: Nth) -> Buyer {
        self.orders.borrow()[nth].buyer
    }

    /// How many were put on sale, when the database was last read.
    pub fn initial(&self, sale: Sale) -> i64 {
        self.initial.get()[sale]
    }

    pub fn orders(&self) -> Vec<i64> {
        self.orders.borrow().iter().map(|order| order.id).collect()
    }

    /// Which order it is; `None`: another case's.
    pub fn nth(&self, order: i64) -> Option<Nth> {
        self.orders.borrow().iter().position(|it| it.id == order)
    }

    /// Those of the sales, when the database was last read.
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

    fn ids(&self) -> [i64; 2] {
        self.vouchers.map(VoucherId::get)
    }

    /// The buyers in the order that a draw gave them.
    pub async fn lots(&self, world: &World) -> [Vec<Buyer>; 2] {
        let mut lots = [const { Vec::new() }; 2];
        let drawn = sqlx::query_as(
            "select e.voucher_id, e.user_id from entries e join vouchers v on v.id = e.voucher_id
             where e.voucher_id = any ($1) and e.entered_at < v.draw_time and e.place > 0 order by e.place",
        );
        let drawn: Vec<(i64, i64)> =
            drawn.bind(self.ids()).fetch_all(world.database.pool()).await.unwrap();
        for (voucher, buyer) in drawn {
            lots[self.sale(voucher)].push(buyer);
        }
        lots
    }

    /// What the database says.
    pub async fn read(&self, world: &World) -> Shop {
        let mut shop = Shop::new(self.terms);
        shop.now = (world.clock.now() - self.begin).num_seconds();
        shop.orders = self.read_orders(world).await;
        self.read_payments(world, &mut shop.orders).await;
        self.read_sales(world, &mut shop.vouchers).await;
        self.read_entries(world, &mut shop.vouchers).await;
        self.initial.set(shop.vouchers.each_ref().map(|voucher| voucher.initial));
        shop
    }

    /// What a statement selects of the vouchers `$1`.
    async fn rows<T>(&self, world: &World, statement: &'static str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let rows = sqlx::query_as(statement).bind(self.ids());
        rows.fetch_all(world.database.pool()).await.unwrap()
    }

    async fn read_orders(&self, world: &World) -> Vec<Order> {
        let seconds = |time: DateTime<Utc>| (time - self.begin).num_seconds();
        let rows = sqlx::query_as(ORDERS).bind(self.ids()).bind(self.orders());
        let rows: Vec<OrderRow> = rows.fetch_all(world.database.pool()).await.unwrap();
        let (mut known, mut orders) = (Vec::new(), Vec::new());
        for (id, voucher, buyer, number, pay_by, cancelled_at, by, is_charged_back, log) in rows {
            let sale = self.sale(voucher);
            known.push(OfOrder { id, sale, buyer });
            orders.push(Order {
                buyer,
                sale,
                status: status(number),
                pay_by: pay_by.map(seconds),
                cancelled: cancelled_at.map(|at| (nth(&WHO, by.unwrap()), seconds(at))),
                is_charged_back,
                payments: Vec::new(),
                log,
            });
        }
        *self.orders.borrow_mut() = known;
        orders
    }

    async fn read_payments(&self, world: &World, orders: &mut [Order]) {
        let rows: Vec<PaymentRow> = self.rows(world, PAYMENTS).await;
        for (order, status, transaction, paid, announced, reason, by, is_twice, is_unwanted) in rows
        {
            let by = by.map(|by| nth(&BY, by));
            orders[self.nth(order).unwrap()].payments.push(Payment {
                status,
                money: transaction.map(|it| (name_of(&it), paid.unwrap())),
                announced,
                refund: reason.map(|reason| Back { reason, by, is_twice }),
                is_unwanted,
            });
        }
    }

    async fn read_sales(&self, world: &World, vouchers: &mut [Voucher; 2]) {
        let sales: Vec<(i64, i64, i32, i32, i16, bool, bool)> = self.rows(world, SALES).await;
        let mut revisions = self.revisions.get();
        for (voucher, revision, stock, initial, held_for, is_paused, is_cancelled) in sales {
            revisions[self.sale(voucher)] = revision;
            let voucher = &mut vouchers[self.sale(voucher)];
            (voucher.stock, voucher.initial) = (stock.into(), initial.into());
            voucher.held_for = nth(&HELD_FOR, held_for + 1);
            (voucher.is_paused, voucher.is_cancelled) = (is_paused, is_cancelled);
        }
        self.revisions.set(revisions);
        let early: Vec<EarlyRow> = self.rows(world, EARLY).await;
        for (voucher, transaction, amount, done_by, order, told_at) in early {
            let why = nth(&[Why::Refunded, Why::ChargedBack], done_by - 1);
            let told_at = (told_at - self.begin).num_seconds();
            let early = (name_of(&transaction), amount, told_at, why, self.nth(order).unwrap());
            vouchers[self.sale(voucher)].early.push(early);
        }
    }

    async fn read_entries(&self, world: &World, vouchers: &mut [Voucher; 2]) {
        let entries: Vec<EntryRow> = self.rows(world, ENTRIES).await;
        for (voucher, buyer, status, place, order) in entries {
            let state = match order {
                Some(order) => EntryState::Offered(self.nth(order).unwrap()),
                None => nth(&[EntryState::Waits, EntryState::Gone, EntryState::Gone], status),
            };
            vouchers[self.sale(voucher)].entries.push(Entry { buyer, state, place });
        }
    }

    /// What an audit of a voucher finds that it must not find, or does not find that it must; `shop` is what should be.
    /// Until the workers are done, stock may be where nobody can buy it.
    pub async fn wrong_audit(
        &self,
        world: &World,
        shop: &Shop,
        sale: Sale,
        workers_are_done: bool,
    ) -> Option<String> {
        let audits = audit::run(world.database.pool(), Some(self.vouchers[sale])).await.unwrap();
        let violations = audits.into_iter().flat_map(|audit| audit.violations);
        let counted = violations.filter(|it| workers_are_done || !waits_for_a_worker(it));
        let (by_gateway, wrong): (Vec<_>, Vec<_>) = counted.partition(is_the_gateways_doing);
        let is_named = shop.is_named(sale);
        (!wrong.is_empty() || by_gateway.is_empty() == is_named).then(|| {
            format!("{wrong:?}, {by_gateway:?}, and the gateway should be named: {is_named}")
        })
    }
}

/// A worker that has not come by yet leaves stock where nobody can buy it.
fn waits_for_a_worker(violation: &Violation) -> bool {
    violation.promise.to_string() == "no_stuck_stock"
}

/// See [`Shop::is_named`].
fn is_the_gateways_doing(violation: &Violation) -> bool {
    violation.what.contains("went back twice") || violation.what.contains("as the gateway says")
}

impl Shop {
    /// What is of one voucher.
    pub fn of(&self, sale: Sale) -> (&Voucher, Vec<&Order>) {
        (&self.vouchers[sale], self.orders.iter().filter(|order| order.sale == sale).collect())
    }

    /// The same, whatever the sequence of entries and early returns.
    pub fn sorted(mut self) -> Self {
        for voucher in &mut self.vouchers {
            voucher.entries.sort_by_key(|entry| (entry.place, entry.buyer));
            voucher.early.sort_unstable();
        }
        self
    }
}

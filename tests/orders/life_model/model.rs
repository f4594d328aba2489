//! The life of orders, vouchers and their lines, written from src/orders/README.md as a pure function: `Shop::take` says what
//! a step answers, and what the shop is after it. Nothing in it comes from the code that it is held against.

mod line;
mod money;
mod words;

pub use self::money::refund_message;
pub use self::words::*;
use self::words::{Status::*, Step::*};

impl Shop {
    pub fn new(terms: [Terms; 2]) -> Self {
        Self { now: 0, vouchers: terms.map(Voucher::new), orders: Vec::new() }
    }

    /// What the step answers; an order, or a buyer, that it names does not exist: `nothing`. A draw has the outcome `lots`:
    /// its buyers in their order. Whether that is what the published seed says is another test's.
    pub fn take(&mut self, mut step: Step, lots: &[Vec<Buyer>; 2]) -> String {
        if step.order().is_some_and(|at| *at >= self.orders.len()) {
            return "nothing".to_owned();
        }
        match step {
            Buy(buyer, sale) => self.buy(buyer, sale),
            BuyAgain(_) => "ordered",
            Open(at) => return self.open(at),
            Took(at, number, Money(name, amount)) => self.took(at, number, name, amount.in_money()),
            Failed(at, number) => self.failed(at, number),
            GaveBack(at, number, Money(name, amount), by, theirs) => {
                self.gave_back((at, number), (name, amount.in_money()), by, theirs)
            }
            CameAgain(at, number, Money(name, amount), by, part) => {
                self.came_again((at, number), (name, amount.in_money()), by, part)
            }
            Cancel(at, who) => return self.step(at, Unpaid, |it| it.cancel(at, who)),
            Redeem(at) => {
                return self.step(at, Paid, |it| {
                    it.orders[at].becomes(Used, "redeemed", Who::Administrator)
                });
            }
            Refund(at) => return self.step(at, Paid, |it| it.refund(at)),
            Settle(at) => {
                let is_again = self.orders[at].status == RefundingAgain;
                let from = if is_again { RefundingAgain } else { Refunding };
                return self.step(at, from, |it| it.settle(at));
            }
            Expire => self.expire(None),
            ExpireBut(at) => self.expire(Some(at)),
            Gateway => return self.gateway(None),
            Says(at, said) => return self.gateway(Some((at, said))),
            NotPaid(at, number) => self.not_paid(at, number),
            Answered(at, number) => match self.payment(at, number) {
                Some(_) => self.answered(at, number as usize - 1, 1, PRICE),
                None => "repeated",
            },
            Pause(sale, is_paused) => self.change(sale, |it| {
                it.is_paused = is_paused;
                true
            }),
            Restock(sale, more) => self.change(sale, |it| {
                let more = i64::from(more);
                let is_left = it.stock + more >= 0;
                if is_left {
                    (it.stock, it.initial) = (it.stock + more, it.initial + more);
                }
                is_left
            }),
            CancelSale(sale) => {
                self.vouchers[sale].is_cancelled = true;
                "done"
            }
            WindUp => self.wind_up(),
            Enter(buyer, sale) => return self.enter(buyer, sale),
            Leave(buyer, sale) => self.leave(buyer, sale),
            Draw => self.draw(lots),
            Offer => self.offer(),
            Serve => {
                self.draw(lots);
                self.offer()
            }
            Pass(seconds) => {
                self.now += seconds;
                ""
            }
            Restart => "",
        }
        .to_owned()
    }

    /// A step that only one state of the order allows.
    fn step(&mut self, at: Nth, from: Status, take: impl FnOnce(&mut Self)) -> String {
        let status = self.orders[at].status;
        if status != from {
            return status.refuses();
        }
        take(self);
        "done".to_owned()
    }

    pub fn live_order(&self, buyer: Buyer, sale: Sale) -> bool {
        let own = |it: &Order| it.buyer == buyer && it.sale == sale && it.status.is_live();
        self.orders.iter().any(own)
    }

    /// Whoever cancels, or does not pay, and buys again waits for 1 s, 2 s, 4 s and so on, up to an hour.
    pub fn is_too_soon(&self, buyer: Buyer, sale: Sale) -> bool {
        let own = self.orders.iter().filter(|it| it.buyer == buyer && it.sale == sale);
        let cancelled = own.filter_map(|it| match it.cancelled {
            Some((Who::Buyer | Who::Time, at)) => Some(at),
            _ => None,
        });
        let times: Vec<Seconds> = cancelled.collect();
        let Some(last) = times.iter().max() else { return false };
        last + pause_after(times.len() as u32) > self.now
    }

    fn buy(&mut self, buyer: Buyer, sale: Sale) -> &'static str {
        let voucher = &self.vouchers[sale];
        if self.live_order(buyer, sale) {
            return "already_bought";
        }
        match (voucher.closed(self.now), voucher.held_for) {
            (Some(why), _) => return why,
            (_, HeldFor::Drawn) => return "draw_open",
            (_, HeldFor::Line) => return "line_open",
            (None, HeldFor::Anybody) => {}
        }
        if voucher.stock == 0 {
            return "sold_out";
        }
        if self.is_too_soon(buyer, sale) {
            return "too_many_requests";
        }
        self.place(buyer, sale);
        "ordered"
    }

    pub fn place(&mut self, buyer: Buyer, sale: Sale) {
        let voucher = &mut self.vouchers[sale];
        voucher.stock -= 1;
        let pay_by = voucher.terms.is_priced.then_some(self.now + PAY_WITHIN);
        self.orders.push(Order {
            buyer,
            sale,
            status: if pay_by.is_some() { Unpaid } else { Paid },
            pay_by,
            asked_until: None,
            cancelled: None,
            is_charged_back: false,
            returned: 0,
            payments: Vec::new(),
            log: Vec::new(),
        });
    }

    pub fn cancel(&mut self, at: Nth, who: Who) {
        let (now, order) = (self.now, &mut self.orders[at]);
        order.becomes(Cancelled, "cancelled", who);
        order.cancelled = Some((who, now));
        order.wants_no_payment();
        self.vouchers[order.sale].stock += 1;
    }

    fn expire(&mut self, but: Option<Nth>) -> &'static str {
        for at in (0..self.orders.len()).filter(|at| Some(*at) != but) {
            let (now, order) = (self.now, &mut self.orders[at]);
            if order.status != Unpaid || order.asked_until.or(order.pay_by) > Some(now) {
                continue;
            }
            // Whoever was sent to the gateway may have paid: it is asked first.
            let under_way = order.payments.iter_mut().find(|payment| payment.status == 1);
            match under_way {
                Some(payment) if order.asked_until.is_none() => {
                    payment.is_asked = true;
                    order.asked_until = Some(now + ASK_WITHIN);
                }
                _ => self.cancel(at, Who::Time),
            }
        }
        ""
    }

    fn wind_up(&mut self) -> &'static str {
        for at in 0..self.orders.len() {
            match self.orders[at].status {
                _ if !self.vouchers[self.orders[at].sale].is_cancelled => {}
                Unpaid => self.cancel(at, Who::Administrator),
                Paid => self.refund(at),
                _ => {}
            }
        }
        ""
    }

    fn change(&mut self, sale: Sale, change: impl FnOnce(&mut Voucher) -> bool) -> &'static str {
        let voucher = &mut self.vouchers[sale];
        if voucher.is_cancelled {
            "sale_cancelled"
        } else if change(voucher) {
            "changed"
        } else {
            "stock_is_sold"
        }
    }
}

//! Payments, and money that goes back.

use super::words::{Status::*, *};

/// A refund as the gateway gets it: of which payment of which order, the payment that the gateway knows, and the money.
pub fn refund_message(at: Nth, number: i32, there: i32, (name, amount): (u8, i64)) -> String {
    format!("refund {at}.{number} of {there}: m{name}, {amount}")
}

impl Shop {
    /// Whether the audit has to name this voucher, though the program did all right: the gateway gave money back twice, or
    /// says that it gave back another sum than it took, and what it took is not given back.
    pub fn is_named(&self, sale: Sale) -> bool {
        let of_sale = self.orders.iter().filter(|it| it.sale == sale);
        let payments: Vec<&Payment> = of_sale.flat_map(|it| &it.payments).collect();
        let is_back = |it: &Payment| it.refund.as_ref().is_some_and(|refund| refund.by.is_some());
        let is_kept = |name: u8| {
            let is_its = |it: &Payment| it.money.is_some_and(|(its, _)| its == name);
            payments.iter().any(|it| is_its(it) && !is_back(it))
        };
        payments.iter().any(|it| it.refund.as_ref().is_some_and(|refund| refund.is_twice))
            || self.vouchers[sale].early.iter().any(|(name, ..)| is_kept(*name))
    }

    pub fn open(&mut self, at: Nth) -> String {
        let order = &mut self.orders[at];
        match order.status {
            Unpaid if order.pay_by > Some(self.now) => {}
            // Its time is over, though nobody has cancelled it yet.
            Unpaid => return Cancelled.refuses(),
            status => return status.refuses(),
        }
        let pending = order.payments.iter().position(|payment| payment.status == 1);
        let number = pending.unwrap_or_else(|| {
            order.payments.push(Payment { status: 1, ..Payment::default() });
            order.payments.len() - 1
        });
        format!("opened {}", number + 1)
    }

    pub fn settle(&mut self, at: Nth) {
        self.orders[at].applied().refund.as_mut().unwrap().by = Some(By::Administrator);
        self.money_is_back(at, "settled_outside", Who::Administrator);
    }

    pub fn failed(&mut self, at: Nth, number: i32) -> &'static str {
        match self.payment(at, number) {
            None => "unknown",
            Some(payment) if payment.status == 1 => {
                payment.status = 3;
                "failed"
            }
            Some(_) => "repeated",
        }
    }

    pub fn refund(&mut self, at: Nth) {
        if self.orders[at].pay_by.is_none() {
            return self.money_is_back(at, "refunded", Who::Administrator);
        }
        self.orders[at].becomes(Refunding, "refund_begun", Who::Administrator);
        self.orders[at].applied().refund = Some(Back::waits("refund"));
    }

    /// The money that paid for the order is back with its buyer. Whoever has used a voucher has used it.
    pub fn money_is_back(&mut self, at: Nth, step: &str, who: Who) {
        let order = &mut self.orders[at];
        if order.status == Used {
            order.is_charged_back = true;
            return order.becomes(Used, "charged_back", who);
        }
        order.becomes(Refunded, step, who);
        self.vouchers[order.sale].stock += 1;
    }

    pub fn payment(&mut self, at: Nth, number: i32) -> Option<&mut Payment> {
        self.orders[at].payments.get_mut(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The order and the payment to which money of this name belongs.
    pub fn owner(&self, sale: Sale, name: u8) -> Option<(Nth, usize)> {
        let orders = self.orders.iter().enumerate().filter(|(_, it)| it.sale == sale);
        let mut all = orders
            .flat_map(|(at, it)| it.payments.iter().enumerate().map(move |(n, it)| (at, n, it)));
        all.find(|(.., it)| it.money.is_some_and(|(its, _)| its == name)).map(|(at, n, _)| (at, n))
    }

    pub fn took(&mut self, at: Nth, number: i32, name: u8, paid: i64) -> &'static str {
        let sale = self.orders[at].sale;
        let Some(payment) = self.payment(at, number).cloned() else { return "unknown" };
        if let Some((owner, _)) = self.owner(sale, name) {
            return if owner == at { "repeated" } else { "unknown" };
        }
        let (order, voucher) = (&self.orders[at], &self.vouchers[sale]);
        let is_free_again = voucher.stock > 0
            && voucher.held_for == HeldFor::Anybody
            && !voucher.is_cancelled
            && !self.live_order(order.buyer, sale);
        let said = match order.status {
            _ if paid != PRICE => "wrong_amount",
            Unpaid => "applied",
            Cancelled if order.cancelled.unwrap().0 == Who::Time && is_free_again => "revived",
            Cancelled => "order_cancelled",
            _ => "order_paid",
        };
        let is_applied = matches!(said, "applied" | "revived");
        if said == "revived" {
            self.vouchers[sale].stock -= 1;
        }
        let order = &mut self.orders[at];
        if is_applied {
            let step = if said == "applied" { "paid" } else { "revived" };
            order.becomes(Paid, step, Who::Gateway);
            order.cancelled = None;
        }
        order.payments[number as usize - 1].is_unwanted = false;
        let kept = Payment {
            status: if is_applied { 2 } else { 4 },
            money: Some((name, paid)),
            announced: payment.money.is_some().then_some(number),
            parts: 0,
            refund: (!is_applied).then(|| Back::waits(said)),
            is_unwanted: false,
            is_asked: false,
        };
        // A second sum for one payment is a payment of its own.
        let kept_as = if payment.money.is_some() {
            order.payments.push(kept);
            order.payments.len() - 1
        } else {
            let told = &mut order.payments[number as usize - 1];
            *told = Payment { is_asked: told.is_asked, ..kept };
            number as usize - 1
        };
        if is_applied {
            order.wants_no_payment();
        }
        let mut told_before = self.vouchers[sale].early.clone();
        told_before.retain(|(its, amount, ..)| (*its, *amount) == (name, paid));
        told_before.sort_unstable();
        let returned = told_before.iter().map(|(.., by, _)| self.goes_back(at, kept_as, *by));
        returned.last().unwrap_or(said)
    }

    pub fn gave_back(
        &mut self,
        at: Nth,
        number: i32,
        name: u8,
        amount: i64,
        by: By,
    ) -> &'static str {
        let sale = self.orders[at].sale;
        if self.payment(at, number).is_none() {
            return "unknown";
        }
        if let Some((owner, kept_as)) = self.owner(sale, name) {
            let payment = &mut self.orders[owner].payments[kept_as];
            let (all, left) = (payment.money.unwrap().1, payment.left().1);
            let is_back = payment.refund.as_ref().is_some_and(|refund| refund.by.is_some());
            if [all, left].contains(&amount) || (is_back && amount < all) {
                return self.goes_back(owner, kept_as, by);
            }
            if amount > left {
                return "partial";
            }
            payment.parts += amount;
            return "part_returned";
        }
        if amount < PRICE {
            return "too_early";
        }
        let (now, early) = (self.now, &mut self.vouchers[sale].early);
        if early.iter().any(|it| (it.0, it.1, it.3, it.4) == (name, amount, by, at)) {
            return "repeated";
        }
        early.push((name, amount, now, by, at));
        "kept"
    }

    /// The money of a payment went back, and nobody here had asked for it.
    pub fn goes_back(&mut self, at: Nth, payment: usize, how: By) -> &'static str {
        let payment = &mut self.orders[at].payments[payment];
        let was_applied = payment.status == 2;
        if let Some(Back { by: Some(by), is_twice, .. }) = &mut payment.refund {
            let is_told_again = *by == how || (*by, how) == (By::Asked, By::Gateway);
            if is_told_again || std::mem::replace(is_twice, true) {
                return "repeated";
            }
            return "returned_twice";
        }
        let by_itself = if how == By::Gateway { "refunded_by_gateway" } else { "charged_back" };
        let refund = payment.refund.get_or_insert_with(|| Back::waits(by_itself));
        refund.by = Some(how);
        if was_applied {
            self.money_is_back(at, "refunded", Who::Gateway);
        }
        "returned"
    }

    /// The messages to the gateway: `refund`, `unwanted` or `asked`, which payment of which order, and its number at the gateway.
    /// What it says changes the shop after all of them were written down.
    pub fn gateway(&mut self, says: Option<(Nth, Said)>) -> String {
        let (mut messages, mut refunds, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        for (at, order) in self.orders.iter_mut().enumerate() {
            for (number, payment) in (1..).zip(&mut order.payments) {
                if std::mem::take(&mut payment.is_unwanted) {
                    messages.push(format!("unwanted {at}.{number}"));
                }
                if payment.is_asked {
                    messages.push(format!("asked {at}.{number}"));
                    questions.push((at, number));
                }
                if payment.refund.as_ref().is_some_and(|refund| refund.by.is_none()) {
                    let there = payment.announced.unwrap_or(number);
                    messages.push(refund_message(at, number, there, payment.left()));
                    refunds.push((at, number as usize - 1));
                }
            }
        }
        for (at, payment) in refunds {
            self.answered(at, payment);
        }
        for (at, number) in questions {
            match says {
                Some((of, Said::Paid(Money(name, paid)))) if of == at => {
                    self.took(at, number, name, paid.in_money());
                }
                Some((of, Said::Failed)) if of == at => {
                    self.failed(at, number);
                }
                _ => {}
            }
            self.not_paid(at, number);
        }
        messages.sort();
        messages.join(", ")
    }

    /// The gateway has said what it knows: if the order is still unpaid, it waits no longer.
    pub fn not_paid(&mut self, at: Nth, number: i32) -> &'static str {
        let now = self.now;
        if let Some(payment) = self.payment(at, number) {
            payment.is_asked = false;
        }
        let until = &mut self.orders[at].asked_until;
        *until = until.map(|until| until.min(now));
        ""
    }

    /// The gateway has given back the money of a payment, because it was asked.
    pub fn answered(&mut self, at: Nth, payment: usize) -> &'static str {
        let payment = &mut self.orders[at].payments[payment];
        match &mut payment.refund {
            Some(Back {
                by: Some(By::ChargeBack | By::Administrator),
                is_twice: is_twice @ false,
                ..
            }) => {
                *is_twice = true;
                "returned_twice"
            }
            Some(Back { by: by @ None, .. }) => {
                *by = Some(By::Asked);
                if payment.status == 2 {
                    self.money_is_back(at, "refunded", Who::Gateway);
                }
                "returned"
            }
            _ => "repeated",
        }
    }
}

//! Payments, and money that goes back.

use super::words::{Status::*, *};

/// A refund as the gateway gets it: of which payment of which order, the how manieth name, the payment that the gateway knows, and
/// the money.
pub fn refund_message(
    (at, number, name): (Nth, i32, i32),
    there: i32,
    (money, amount): (u8, i64),
) -> String {
    let name = if name > 1 { format!("-{name}") } else { String::new() };
    format!("refund {at}.{number}{name} of {there}: m{money}, {amount}")
}

impl Shop {
    /// Whether the audit has to name this voucher, though the program did all right: the gateway gave back more than it took.
    pub fn is_named(&self, sale: Sale) -> bool {
        let of_sale = self.orders.iter().enumerate().filter(|(_, it)| it.sale == sale);
        let mut payments =
            of_sale.flat_map(|(at, it)| (0..it.payments.len()).map(move |n| (at, n)));
        payments.any(|(at, payment)| self.rest(at, payment).is_some_and(|rest| rest < 0))
    }

    /// What is left of the money of a payment.
    fn rest(&self, at: Nth, payment: usize) -> Option<i64> {
        let order = &self.orders[at];
        let (name, paid) = order.payments[payment].money?;
        Some(paid - self.returned(order.sale, name))
    }

    /// What of this money went back.
    fn returned(&self, sale: Sale, name: u8) -> i64 {
        let returns = self.vouchers[sale].returns.iter();
        returns.filter(|it| it.money == name && !it.is_undone).map(|it| it.amount).sum()
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
        let payment = self.orders[at].applied().unwrap();
        let rest = self.rest(at, payment).unwrap();
        self.goes_back(at, payment, rest, By::Administrator, (None, None));
    }

    pub fn failed(&mut self, at: Nth, number: i32) -> &'static str {
        let sale = self.orders[at].sale;
        let Some(payment) = self.payment(at, number) else { return "unknown" };
        if payment.status == 1 {
            payment.status = 3;
            return "failed";
        }
        let money = payment.money;
        let is_back = money.is_some_and(|(name, _)| self.returned(sale, name) > 0);
        if is_back { "was_refunded" } else { "repeated" }
    }

    pub fn refund(&mut self, at: Nth) {
        if self.orders[at].pay_by.is_none() {
            return self.money_is_back(at, "refunded", Who::Administrator);
        }
        self.orders[at].becomes(Refunding, "refund_begun", Who::Administrator);
        let payment = self.orders[at].applied().unwrap();
        self.orders[at].payments[payment].refund = Some(Back::waits("refund", self.now));
    }

    /// The money that paid for the order is back with its buyer. Whoever has used a voucher has used it.
    pub fn money_is_back(&mut self, at: Nth, step: &str, who: Who) {
        let order = &mut self.orders[at];
        if order.status == Used {
            order.is_charged_back = true;
            return order.becomes(Used, "charged_back", who);
        }
        // Otherwise the voucher came back when the order was refunded first.
        let is_first = order.status != RefundingAgain;
        order.becomes(Refunded, step, who);
        self.vouchers[order.sale].stock += i64::from(is_first);
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
            _ if self.charged_back(at, false) == PRICE && !self.is_asked_for(at) => {
                "charge_back_won"
            }
            // It may be money that was told as won before.
            _ if self.charged_back(at, true) == PRICE => return "unknown",
            _ => "order_paid",
        };
        let is_applied = matches!(said, "applied" | "revived" | "charge_back_won");
        if said == "revived" {
            self.vouchers[sale].stock -= 1;
        }
        let order = &mut self.orders[at];
        if said == "charge_back_won" {
            order.becomes(order.status, said, Who::Gateway);
            order.is_charged_back = false;
            let before = order.applied().unwrap();
            (order.payments[before].status, order.payments[before].is_replaced) = (4, true);
        } else if is_applied {
            let step = if said == "applied" { "paid" } else { "revived" };
            order.becomes(Paid, step, Who::Gateway);
            order.cancelled = None;
        }
        order.payments[number as usize - 1].is_unwanted = false;
        let kept = Payment {
            status: if is_applied { 2 } else { 4 },
            money: Some((name, paid)),
            announced: payment.money.is_some().then_some(number),
            is_replaced: false,
            refund: (!is_applied).then(|| Back::waits(said, self.now)),
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
        let returns = self.vouchers[sale].returns.iter_mut();
        for it in returns.filter(|it| it.money == name) {
            (it.order, it.is_early) = (at, false);
        }
        match self.follow(at, kept_as, By::Gateway) {
            0 => "returned",
            ..0 => "returned_twice",
            _ => said,
        }
    }

    /// What a bank took of the money that paid for the order; of what `is_undone`, the largest.
    fn charged_back(&self, at: Nth, is_undone: bool) -> i64 {
        let order = &self.orders[at];
        let paid = order.applied().and_then(|payment| order.payments[payment].money);
        let taken = self.vouchers[order.sale].returns.iter().filter(|it| {
            paid.is_some_and(|(name, _)| name == it.money)
                && it.by == By::ChargeBack
                && it.is_undone == is_undone
        });
        let amounts = taken.map(|it| it.amount);
        if is_undone { amounts.max().unwrap_or_default() } else { amounts.sum() }
    }

    /// Whether a refund of the money that paid for the order was begun.
    fn is_asked_for(&self, at: Nth) -> bool {
        let order = &self.orders[at];
        order.applied().is_some_and(|payment| order.payments[payment].refund.is_some())
    }

    pub fn gave_back(
        &mut self,
        (at, number): (Nth, i32),
        (name, amount): (u8, i64),
        by: By,
        theirs: Option<u8>,
    ) -> &'static str {
        let sale = self.orders[at].sale;
        if self.payment(at, number).is_none() {
            return "unknown";
        }
        let owner = self.owner(sale, name);
        // Of money that has not come yet, as much as was asked for.
        let whole =
            owner.map_or(PRICE, |(at, payment)| self.orders[at].payments[payment].money.unwrap().1);
        let rest = whole - self.returned(sale, name);
        if self.is_told_again(sale, (name, amount), by, theirs, (whole, rest)) {
            return "repeated";
        }
        let of_it = if amount == whole && rest > 0 { rest } else { amount };
        let Some((owner, payment)) = owner else {
            let early = Return { is_early: true, ..returned(name, at, of_it, by, (None, theirs)) };
            self.vouchers[sale].returns.push(early);
            return "kept";
        };
        if amount > whole || (rest > 0 && of_it > rest) {
            return "partial";
        }
        // The gateway tells of what it was asked for.
        let asked = self.orders[owner].payments[payment].refund.as_ref().map(|refund| refund.name);
        let is_asked = by == By::Gateway && (of_it == rest || amount == whole);
        let ours = asked.filter(|asked| is_asked && !self.has_name(sale, name, *asked));
        self.goes_back(owner, payment, of_it, by, (ours, theirs))
    }

    /// A return has a name by which the gateway was asked.
    fn has_name(&self, sale: Sale, money: u8, asked: i32) -> bool {
        self.vouchers[sale].returns.iter().any(|it| it.money == money && it.ours == Some(asked))
    }

    /// The same name is the same return. Without a name the same amount is, if it cannot be another part.
    fn is_told_again(
        &mut self,
        sale: Sale,
        (name, amount): (u8, i64),
        by: By,
        theirs: Option<u8>,
        (whole, rest): (i64, i64),
    ) -> bool {
        let returns = &mut self.vouchers[sale].returns;
        if theirs.is_some() && returns.iter().any(|it| it.money == name && it.theirs == theirs) {
            return true;
        }
        if amount < whole && amount <= rest {
            return false;
        }
        let last = returns.iter().rposition(|it| it.money == name && !it.is_undone);
        let same = returns.iter_mut().enumerate().rfind(|(place, it)| {
            let is_asked = by == By::Gateway && it.by == By::Asked && it.theirs.is_none();
            let is_alike = match theirs {
                None => it.by == by || is_asked,
                Some(_) => is_asked && !it.is_undone,
            };
            let is_the_rest = amount == whole && rest <= 0 && last == Some(*place);
            it.money == name && is_alike && (it.amount == amount || is_the_rest)
        });
        let Some((_, same)) = same else { return false };
        same.theirs = same.theirs.or(theirs);
        true
    }

    /// So much of the money of a payment went back.
    fn goes_back(
        &mut self,
        at: Nth,
        payment: usize,
        amount: i64,
        by: By,
        names: (Option<i32>, Option<u8>),
    ) -> &'static str {
        let order = &self.orders[at];
        let (name, _) = order.payments[payment].money.unwrap();
        self.vouchers[order.sale].returns.push(returned(name, at, amount, by, names));
        match self.follow(at, payment, by) {
            0 => "returned",
            ..0 => "returned_twice",
            _ => "part_returned",
        }
    }

    /// What follows from what is left of the money of a payment.
    fn follow(&mut self, at: Nth, payment: usize, by: By) -> i64 {
        let rest = self.rest(at, payment).unwrap();
        let order = &mut self.orders[at];
        let its = &mut order.payments[payment];
        if rest <= 0
            && let Some(refund) = &mut its.refund
        {
            refund.due = None;
        }
        if its.status == 2 {
            order.returned = its.money.unwrap().1 - rest;
            let is_known = order.status == Refunded || order.is_charged_back;
            let (step, who) = match by {
                By::Administrator => ("settled_outside", Who::Administrator),
                _ => ("refunded", Who::Gateway),
            };
            if rest <= 0 && !is_known {
                self.money_is_back(at, step, who);
            }
        }
        rest
    }

    /// Money that went back is ours again.
    pub fn came_again(
        &mut self,
        (at, number): (Nth, i32),
        (name, amount): (u8, i64),
        by: By,
        part: Option<Name>,
    ) -> &'static str {
        let sale = self.orders[at].sale;
        if self.payment(at, number).is_none() {
            return "unknown";
        }
        let owner = self.owner(sale, name);
        let is_own = owner == Some((at, number as usize - 1));
        let is_meant = |it: &Return| {
            let is_named = match part {
                None => true,
                Some(Name::Ours(asked)) => is_own && it.ours == Some(asked),
                Some(Name::Theirs(_)) => part == it.theirs.map(Name::Theirs),
            };
            let is_of_kind = if by == By::ChargeBack {
                it.by == by
            } else {
                matches!(it.by, By::Asked | By::Gateway)
            };
            it.money == name && is_named && is_of_kind
        };
        let returns = &mut self.vouchers[sale].returns;
        let known = returns.iter_mut().filter(|it| is_meant(it)).collect::<Vec<_>>();
        if known.is_empty() {
            return self.failed_refund(owner.filter(|_| is_own), part);
        }
        let standing: i64 = known.iter().filter(|it| !it.is_undone).map(|it| it.amount).sum();
        let paying = owner.map(|(at, payment)| &self.orders[at].payments[payment]);
        let is_replaced = by == By::ChargeBack && paying.is_some_and(|it| it.is_replaced);
        if standing == 0 || is_replaced {
            return "repeated";
        }
        if amount != standing && paying.is_none_or(|it| it.money.unwrap().1 != amount) {
            return "other_amount";
        }
        known.into_iter().for_each(|it| it.is_undone = true);
        if let Some((owner, payment)) = owner {
            self.follow_again(owner, payment, by);
        }
        if by == By::ChargeBack { "charge_back_won" } else { "refund_failed" }
    }

    /// A refund failed that nobody took for done.
    fn failed_refund(&mut self, of: Option<(Nth, usize)>, part: Option<Name>) -> &'static str {
        let Some(((at, payment), Name::Ours(asked))) = of.zip(part) else { return "too_early" };
        match &self.orders[at].payments[payment].refund {
            Some(refund) if refund.due.is_some() && refund.name == asked => {
                self.ask_again(at, payment);
                "refund_waits"
            }
            Some(refund) if asked <= refund.name => "repeated",
            _ => "too_early",
        }
    }

    /// What follows where money of a payment is ours again.
    fn follow_again(&mut self, at: Nth, payment: usize, by: By) {
        if self.follow(at, payment, by) <= 0 {
            return;
        }
        let order = &mut self.orders[at];
        let its = &order.payments[payment];
        let (waits, mut is_owed) =
            (its.refund.as_ref().is_some_and(|refund| refund.due.is_some()), its.status == 4);
        if its.status == 2 {
            match order.status {
                Used if order.is_charged_back => {
                    order.is_charged_back = false;
                    order.becomes(Used, "charge_back_won", Who::Gateway);
                }
                Refunded if by == By::ChargeBack && its.refund.is_none() => {
                    order.becomes(Refunded, "charge_back_won", Who::Gateway);
                }
                Refunded => {
                    order.becomes(RefundingAgain, "refund_failed", Who::Gateway);
                    is_owed = true;
                }
                _ => {}
            }
        }
        if is_owed && !waits {
            self.ask_again(at, payment);
        }
    }

    /// The gateway is asked by another name, and each time later.
    fn ask_again(&mut self, at: Nth, payment: usize) {
        let now = self.now;
        let refund = &mut self.orders[at].payments[payment].refund;
        match refund {
            None => *refund = Some(Back::waits("refund_failed", now)),
            Some(refund) => refund.name += 1,
        }
        let refund = refund.as_mut().unwrap();
        refund.due = Some(now + 300.min(1 << (refund.name - 1).min(9)));
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
                let due =
                    payment.refund.as_ref().filter(|it| it.due.is_some_and(|due| due <= self.now));
                if let Some(refund) = due {
                    refunds.push((at, number, refund.name, payment.announced));
                }
            }
        }
        for (at, number, name, announced) in refunds {
            let payment = number as usize - 1;
            let (money, _) = self.orders[at].payments[payment].money.unwrap();
            let rest = self.rest(at, payment).unwrap();
            let there = announced.unwrap_or(number);
            messages.push(refund_message((at, number, name), there, (money, rest)));
            self.answered(at, payment, name, rest);
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

    /// The gateway has given back so much of the money of a payment, as it was asked by this name.
    pub fn answered(&mut self, at: Nth, payment: usize, name: i32, amount: i64) -> &'static str {
        let order = &self.orders[at];
        let its = &order.payments[payment];
        let is_asked = its.refund.as_ref().is_some_and(|refund| refund.name == name);
        if !is_asked || self.has_name(order.sale, its.money.unwrap().0, name) {
            return "repeated";
        }
        let said = self.goes_back(at, payment, amount, By::Asked, (Some(name), None));
        if said == "part_returned" {
            self.ask_again(at, payment);
        }
        said
    }
}

fn returned(
    money: u8,
    order: Nth,
    amount: i64,
    by: By,
    (ours, theirs): (Option<i32>, Option<u8>),
) -> Return {
    Return { money, order, amount, by, ours, theirs, is_undone: false, is_early: false }
}

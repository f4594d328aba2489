//! A draw, and the line for what comes back.

use super::words::*;

impl Shop {
    pub fn may_not_enter(&self, buyer: Buyer, sale: Sale) -> Option<&'static str> {
        let voucher = &self.vouchers[sale];
        let is_for_sale = voucher.held_for == HeldFor::Anybody && voucher.stock > 0;
        if self.live_order(buyer, sale) {
            Some("already_bought")
        } else if voucher.waiting().any(|entry| entry.buyer == buyer) {
            Some("entered_before")
        } else if let Some(why) = voucher.closed(self.now) {
            Some(why)
        } else if voucher.is_drawn_next(self.now) {
            Some("draw_closed")
        } else if self.is_too_soon(buyer, sale) || self.has_just_left(buyer, sale) {
            Some("too_many_requests")
        } else {
            (is_for_sale || !voucher.terms.has_line).then_some("line_closed")
        }
    }

    /// Whoever leaves and comes back waits, too.
    fn has_just_left(&self, buyer: Buyer, sale: Sale) -> bool {
        let entries = self.vouchers[sale].entries.iter().filter(|it| it.buyer == buyer);
        let (times, last): (Vec<u32>, Vec<Option<Seconds>>) =
            entries.map(|it| (it.times_left, it.left_at)).unzip();
        let last = last.into_iter().flatten().max();
        last.is_some_and(|last| last + pause_after(times.iter().sum()) > self.now)
    }

    pub fn enter(&mut self, buyer: Buyer, sale: Sale) -> String {
        if let Some(why) = self.may_not_enter(buyer, sale) {
            return why.to_owned();
        }
        let voucher = &mut self.vouchers[sale];
        let last = voucher.entries.iter().filter_map(|entry| entry.place).max();
        let is_in_line = voucher.held_for != HeldFor::Drawn;
        let place = is_in_line.then_some(last.unwrap_or(0) + 1);
        // Whoever comes back has the entry of before, unless it was drawn: nobody tries one after the other.
        let is_own =
            |it: &&mut Entry| it.buyer == buyer && it.state == EntryState::Gone && !it.is_drawn;
        match voucher.entries.iter_mut().find(is_own) {
            Some(before) => {
                (before.state, before.place) = (EntryState::Waits, place);
                before.left_at = None;
            }
            None => voucher.entries.push(Entry {
                buyer,
                state: EntryState::Waits,
                place,
                is_drawn: false,
                times_left: 0,
                left_at: None,
            }),
        }
        voucher.mark_line();
        if is_in_line {
            format!("entered as {}", voucher.waiting().count())
        } else {
            "entered".to_owned()
        }
    }

    pub fn leave(&mut self, buyer: Buyer, sale: Sale) -> &'static str {
        if self.live_order(buyer, sale) {
            return "already_bought";
        }
        let (now, voucher) = (self.now, &mut self.vouchers[sale]);
        let is_closed = voucher.is_drawn_next(now) && !voucher.is_cancelled;
        let waits = |it: &&mut Entry| it.buyer == buyer && it.state == EntryState::Waits;
        match voucher.entries.iter_mut().find(waits) {
            None => return "not_entered",
            Some(_) if is_closed => return "draw_closed",
            Some(entry) => {
                (entry.state, entry.left_at) = (EntryState::Gone, Some(now));
                entry.times_left += 1;
            }
        }
        voucher.mark_line();
        "left"
    }

    pub fn draw(&mut self, lots: &[Vec<Buyer>; 2]) -> &'static str {
        for (voucher, lots) in self.vouchers.iter_mut().zip(lots) {
            if !voucher.is_drawn_next(self.now) || voucher.closed(self.now).is_some() {
                continue;
            }
            let mut entered: Vec<Buyer> = voucher.waiting().map(|entry| entry.buyer).collect();
            entered.sort_by_key(|buyer| lots.iter().position(|lot| lot == buyer));
            if entered != *lots {
                continue; // No draw of these entries: the shop is another one than it should be.
            }
            for entry in voucher.entries.iter_mut().filter(|it| it.state == EntryState::Waits) {
                entry.place = (1..).zip(lots).find(|it| *it.1 == entry.buyer).map(|it| it.0);
                entry.is_drawn = true;
            }
            voucher.held_for = HeldFor::Line;
            voucher.mark_line();
        }
        ""
    }

    pub fn offer(&mut self) -> &'static str {
        for sale in 0..2 {
            if self.vouchers[sale].closed(self.now).is_some() {
                continue;
            }
            while self.vouchers[sale].stock > 0 && self.vouchers[sale].held_for == HeldFor::Line {
                let (order, voucher) = (self.orders.len(), &mut self.vouchers[sale]);
                let waiting = voucher.entries.iter_mut().filter(|it| it.state == EntryState::Waits);
                let first = waiting.min_by_key(|entry| entry.place).unwrap();
                first.state = EntryState::Offered(order);
                let buyer = first.buyer;
                self.place(buyer, sale);
                self.vouchers[sale].mark_line();
            }
        }
        ""
    }
}

//! What there is in a shop, and what can happen in it.

use self::{Status::*, Step::*};

/// One of three buyers.
pub type Buyer = i64;
/// One of two vouchers: 0 or 1.
pub type Sale = usize;
/// Orders are named in the sequence in which they were placed, from 0.
pub type Nth = usize;

/// What can happen. The gateway's notices name a payment by its number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Buy(Buyer, Sale),
    /// The purchase of the order is sent once more, because its answer was lost.
    BuyAgain(Nth),
    /// The order's buyer begins a payment, or finds the one that is pending.
    Open(Nth),
    Took(Nth, i32, Money),
    Failed(Nth, i32),
    /// Money went back for which nobody here asked: by [`By::Gateway`] or [`By::ChargeBack`], which may have a name for it.
    GaveBack(Nth, i32, Money, By, Option<u8>),
    /// Money that went back is ours again: what [`By::Gateway`] gave back failed, or a [`By::ChargeBack`] was won. `None` is all
    /// that was charged back.
    CameAgain(Nth, i32, Money, By, Option<Name>),
    Cancel(Nth, Who),
    Redeem(Nth),
    Refund(Nth),
    Settle(Nth),
    /// The workers' step that cancels what is not paid in time.
    Expire,
    /// The same, while another session holds this order: it is left for the next time.
    ExpireBut(Nth),
    /// The gateway does all that it is asked for. Of payments it says that they are not paid.
    Gateway,
    /// The same, but if it is asked about a payment of this order, it says this.
    Says(Nth, Said),
    /// The gateway, which was asked, has said that a payment is not paid.
    NotPaid(Nth, i32),
    /// The gateway has given back [`PRICE`] of the money of a payment, for which it was asked the first time.
    Answered(Nth, i32),
    Pause(Sale, bool),
    Restock(Sale, i32),
    CancelSale(Sale),
    /// The orders of cancelled sales are ended.
    WindUp,
    Enter(Buyer, Sale),
    Leave(Buyer, Sale),
    /// What is due is drawn, and then what there is for those in line is offered, until nothing is left to do.
    Serve,
    Draw,
    Offer,
    Pass(Seconds),
    /// A server ends, and another one begins.
    Restart,
}

pub type Seconds = i64;

/// The gateway's name of the money, which counts within one voucher, and how much it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Money(pub u8, pub Amount);

/// What the gateway says of a payment about which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    Paid(Money),
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Asked,
    Less,
    Twice,
}

/// A name of what went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The first, second, ... by which the gateway was asked for the money of the payment.
    Ours(i32),
    Theirs(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Buyer,
    Administrator,
    Time,
    Gateway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Unpaid,
    Paid,
    Used,
    Cancelled,
    Refunding,
    Refunded,
    /// Its refund failed, and its voucher is on sale again.
    RefundingAgain,
}

/// What a voucher is from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub stock: i64,
    /// It costs [`PRICE`], to be paid within [`PAY_WITHIN`].
    pub is_priced: bool,
    pub has_line: bool,
    pub begin: Seconds,
    pub end: Seconds,
    /// When its entries are drawn.
    pub draw: Option<Seconds>,
}

pub const PRICE: i64 = 8_000;
pub const PAY_WITHIN: Seconds = 900;
/// How long an order waits for what the gateway says of its payment.
pub const ASK_WITHIN: Seconds = 60;

/// Who may have what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldFor {
    Anybody,
    Drawn,
    Line,
}

/// A voucher as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    pub terms: Terms,
    pub stock: i64,
    /// The stock that it was put on sale with, restocks included.
    pub initial: i64,
    pub held_for: HeldFor,
    pub is_paused: bool,
    pub is_cancelled: bool,
    pub entries: Vec<Entry>,
    pub returns: Vec<Return>,
}

/// Money that went back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    pub money: u8,
    /// The order that the money came for; if it has not come yet, the one that was named.
    pub order: Nth,
    pub amount: i64,
    pub by: By,
    /// Which time it was asked for by then.
    pub ours: Option<i32>,
    pub theirs: Option<u8>,
    /// It came again.
    pub is_undone: bool,
    pub is_early: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub buyer: Buyer,
    pub state: EntryState,
    pub place: Option<i64>,
    /// It took part in a draw.
    pub is_drawn: bool,
    /// How often its buyer has left, and when, if it has not come back.
    pub times_left: u32,
    pub left_at: Option<Seconds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    Waits,
    Offered(Nth),
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub buyer: Buyer,
    pub sale: Sale,
    pub status: Status,
    pub pay_by: Option<Seconds>,
    /// While it is unpaid: until when the gateway is asked before time cancels it.
    pub asked_until: Option<Seconds>,
    pub cancelled: Option<(Who, Seconds)>,
    pub is_charged_back: bool,
    /// What of the money that paid it went back.
    pub returned: i64,
    pub payments: Vec<Payment>,
    /// The rows of the log of steps.
    pub log: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payment {
    /// 1 pending, 2 applied, 3 failed, 4 confirmed and not applied.
    pub status: i16,
    pub money: Option<(u8, i64)>,
    /// The payment by which the gateway knows a second sum.
    pub announced: Option<i32>,
    /// It was charged back, and came again as another payment.
    pub is_replaced: bool,
    pub refund: Option<Back>,
    /// The gateway is to be told that it is not wanted.
    pub is_unwanted: bool,
    /// The gateway is to be asked about it, while the order is unpaid.
    pub is_asked: bool,
}

/// Money that goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back {
    pub reason: String,
    /// How often it was asked for by another name.
    pub name: i32,
    /// When it is asked for; `None`: it is done.
    pub due: Option<Seconds>,
}

/// Who gave it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Asked,
    Gateway,
    ChargeBack,
    Administrator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shop {
    pub now: Seconds,
    pub vouchers: [Voucher; 2],
    pub orders: Vec<Order>,
}

impl Back {
    pub fn waits(reason: &str, due: Seconds) -> Self {
        Self { reason: reason.to_owned(), name: 1, due: Some(due) }
    }
}

impl Step {
    /// The order that it names.
    pub fn order(&mut self) -> Option<&mut Nth> {
        match self {
            BuyAgain(at)
            | Open(at)
            | Took(at, ..)
            | Failed(at, _)
            | GaveBack(at, ..)
            | CameAgain(at, ..)
            | Cancel(at, _)
            | Redeem(at)
            | Refund(at)
            | Settle(at)
            | Says(at, _)
            | NotPaid(at, _)
            | Answered(at, _) => Some(at),
            _ => None,
        }
    }

    /// The same with the name of one of so many orders.
    pub fn of_one_of(mut self, orders: usize) -> Self {
        if let Some(at) = self.order() {
            *at %= orders.max(1);
        }
        self
    }
}

impl Status {
    /// What a step answers that an order in this state does not allow.
    pub fn refuses(self) -> String {
        let seen = if self == RefundingAgain { Refunding } else { self };
        format!("refused {seen:?}").to_lowercase()
    }

    pub const fn is_live(self) -> bool {
        !matches!(self, Cancelled | Refunded | RefundingAgain)
    }
}

impl Amount {
    pub const fn in_money(self) -> i64 {
        match self {
            Self::Asked => PRICE,
            Self::Less => PRICE - 1,
            Self::Twice => 2 * PRICE,
        }
    }
}

impl Order {
    pub fn becomes(&mut self, status: Status, step: &str, who: Who) {
        let row = format!("{step} by {who:?}: {:?} to {status:?}", self.status);
        self.log.push(row.to_lowercase());
        self.status = status;
        self.asked_until = None;
        self.payments.iter_mut().for_each(|payment| payment.is_asked = false);
    }

    /// A payment that is pending is not wanted any more.
    pub fn wants_no_payment(&mut self) {
        for payment in self.payments.iter_mut().filter(|payment| payment.status == 1) {
            payment.is_unwanted = true;
        }
    }

    /// The payment that paid it.
    pub fn applied(&self) -> Option<usize> {
        self.payments.iter().position(|payment| payment.status == 2)
    }
}

/// How long somebody waits who has done so so many times: 1 s, 2 s, 4 s and so on, up to an hour.
pub fn pause_after(times: u32) -> Seconds {
    3_600.min(1 << (times - 1).min(12))
}

impl Voucher {
    pub fn new(terms: Terms) -> Self {
        let held_for = if terms.draw.is_some() { HeldFor::Drawn } else { HeldFor::Anybody };
        Self {
            terms,
            stock: terms.stock,
            initial: terms.stock,
            held_for,
            is_paused: false,
            is_cancelled: false,
            entries: Vec::new(),
            returns: Vec::new(),
        }
    }

    pub fn waiting(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.state == EntryState::Waits)
    }

    /// After the draw what there is, is held while somebody waits.
    pub fn mark_line(&mut self) {
        if self.held_for != HeldFor::Drawn {
            let waits = self.waiting().next().is_some();
            self.held_for = if waits { HeldFor::Line } else { HeldFor::Anybody };
        }
    }

    /// Why nothing is sold or offered at this time.
    pub fn closed(&self, now: Seconds) -> Option<&'static str> {
        if self.is_cancelled || now >= self.terms.end {
            Some("sale_ended")
        } else if now < self.terms.begin {
            Some("sale_not_started")
        } else {
            self.is_paused.then_some("sale_paused")
        }
    }

    pub fn is_drawn_next(&self, now: Seconds) -> bool {
        self.held_for == HeldFor::Drawn && self.terms.draw.is_some_and(|draw| now >= draw)
    }
}

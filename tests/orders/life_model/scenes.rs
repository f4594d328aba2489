//! Where steps meet: how many there are, how an order came where it is, and which steps meet there.

use std::collections::BTreeMap;

use super::meetings::Meeting;
use super::model::{Amount::*, By, Money, Name, Step, Step::*, Terms, Who};
use super::runs::Life;

/// A voucher at a price, with a line.
pub const fn with_stock(stock: i64) -> Terms {
    Terms { stock, is_priced: true, has_line: true, begin: -3_600, end: 18_000, draw: None }
}

/// There is none of it.
const NONE: Terms = Terms { stock: 0, is_priced: false, has_line: false, ..with_stock(0) };

pub const FIRST: Money = Money(1, Asked);
pub const SECOND: Money = Money(2, Asked);
pub const REFUNDED: Step = GaveBack(0, 1, FIRST, By::Gateway, None);
pub const CHARGED_BACK: Step = GaveBack(0, 1, FIRST, By::ChargeBack, None);
/// What the gateway was asked for the first time.
pub const FAILED: Step = CameAgain(0, 1, FIRST, By::Gateway, Some(Name::Ours(1)));
pub const WON: Step = CameAgain(0, 1, FIRST, By::ChargeBack, None);

/// A part of the money.
pub const PART: Step = GaveBack(0, 1, Money(1, Less), By::ChargeBack, None);

pub const PAY: Step = Took(0, 1, FIRST);
const AGAIN: Step = Took(0, 1, SECOND);
pub const CANCEL: Step = Cancel(0, Who::Buyer);
pub const LATE: Step = Pass(900);
const UNANSWERED: Step = Pass(60);
const NOT_PAID: Step = NotPaid(0, 1);

#[rustfmt::skip] // a table
const SCENES: &[(i64, &[Step], &[Step])] = &[
    (2, &[Buy(1, 0), Open(0)], &[PAY, AGAIN, Open(0), CANCEL, Redeem(0), Failed(0, 1), REFUNDED, CancelSale(0)]),
    (2, &[Buy(1, 0)], &[Open(0), CANCEL, BuyAgain(0)]),
    (1, &[], &[Buy(1, 0), Buy(2, 0), Restock(0, 1), Restock(0, -1), Pause(0, true), CancelSale(0), Pass(18_000)]),
    (2, &[Buy(1, 0), Open(0), LATE], &[PAY, Open(0), CANCEL, Expire, REFUNDED, Restock(0, -1)]),
    (2, &[Buy(1, 0), Open(0), LATE, Expire], &[PAY, NOT_PAID, Expire, Failed(0, 1), CANCEL, REFUNDED, Took(0, 1, Money(3, Less))]),
    (2, &[Buy(1, 0), Open(0), LATE, Expire, UNANSWERED], &[PAY, NOT_PAID, Expire, CANCEL, CancelSale(0)]),
    (2, &[Buy(1, 0), Open(0), LATE, Expire, NOT_PAID], &[PAY, NOT_PAID, Expire, Open(0)]),
    (2, &[Buy(1, 0), Open(0), LATE, Expire, NOT_PAID, Expire, Pass(1)], &[PAY, AGAIN, Failed(0, 1), Buy(1, 0), REFUNDED, Pause(0, true)]),
    (1, &[Buy(1, 0), Open(0), LATE, Expire, NOT_PAID, Expire], &[PAY, Buy(2, 0), Enter(2, 0), Restock(0, -1), CancelSale(0)]),
    (2, &[Buy(1, 0), Open(0), PAY], &[AGAIN, Redeem(0), Refund(0), CANCEL, REFUNDED, CHARGED_BACK]),
    (2, &[Buy(1, 0), Open(0), PAY, Refund(0)], &[Answered(0, 1), Settle(0), Redeem(0), REFUNDED, CHARGED_BACK, PART]),
    (2, &[Buy(1, 0), Open(0), PAY, Redeem(0)], &[Redeem(0), Refund(0), REFUNDED, CHARGED_BACK]),
    (1, &[Buy(1, 0), Open(0), LATE, Expire, NOT_PAID], &[Enter(2, 0), CANCEL, Expire, PAY, Serve]),
    (1, &[Buy(1, 0), Open(0), Enter(2, 0), LATE, Expire, NOT_PAID, Expire, Pass(1)], &[Enter(3, 0), Leave(2, 0), Serve, Buy(1, 0), PAY]),
    (2, &[Buy(1, 0), Open(0), Buy(2, 0), Open(1)], &[PAY, GaveBack(1, 1, FIRST, By::Gateway, None)]),
    (2, &[Buy(1, 0), Open(0), Buy(2, 0), Open(1), LATE, Expire, NOT_PAID, NotPaid(1, 1), Expire], &[PAY, Took(1, 1, FIRST), GaveBack(1, 1, FIRST, By::Gateway, None)]),
    (2, &[Buy(1, 0), Open(0), REFUNDED], &[PAY, CHARGED_BACK, CANCEL]),
    (2, &[Buy(1, 0), Open(0), PAY, Refund(0)], &[Answered(0, 1), FAILED, PART]),
    (1, &[Buy(1, 0), Open(0), PAY, Refund(0), Answered(0, 1)], &[FAILED, CHARGED_BACK, REFUNDED, Buy(2, 0), Failed(0, 1)]),
    (2, &[Buy(1, 0), Open(0), PAY, Refund(0), Answered(0, 1), FAILED], &[FAILED, Settle(0), REFUNDED, CHARGED_BACK]),
    (2, &[Buy(1, 0), Open(0), PAY, Redeem(0), CHARGED_BACK], &[WON, AGAIN, CHARGED_BACK, REFUNDED]),
    (2, &[Buy(1, 0), Open(0), PAY, CHARGED_BACK], &[WON, AGAIN, Buy(1, 0)]),
];

/// Three at once, after [`IN_LINE`] with one voucher.
const THREE: [[Step; 3]; 5] = [
    [CANCEL, Serve, Enter(3, 0)],
    [Expire, PAY, Serve],
    [Leave(2, 0), CANCEL, Buy(3, 0)],
    [Serve, Leave(2, 0), Expire],
    [PAY, Expire, Leave(2, 0)],
];
const IN_LINE: [Step; 6] = [Buy(1, 0), Open(0), Enter(2, 0), LATE, Expire, NOT_PAID];

/// Of each scene each pair, and each three, the first stopped at each of its points.
pub fn all(points: &BTreeMap<String, usize>) -> Vec<Meeting> {
    let mut all = Vec::new();
    let mut meet = |stock: i64, before: &[Step], steps: &[Step]| {
        for function in steps[0].functions() {
            all.extend((0..points[*function]).map(|point| Meeting {
                before: Life { terms: [with_stock(stock), NONE], steps: before.to_vec() },
                steps: steps.to_vec(),
                stop: (function, point),
            }));
        }
    };
    for (stock, before, steps) in SCENES {
        for pair in steps.iter().flat_map(|first| steps.iter().map(move |second| [*first, *second]))
        {
            meet(*stock, before, &pair);
        }
    }
    THREE.iter().for_each(|three| meet(1, &IN_LINE, three));
    all
}

//! Lives with a name: the voucher, what was before, and then each step with what it answers.

use super::model::{Amount::*, By, Money, Name, Said, Step, Step::*, Terms, Who};
use super::runs::Life;
use super::scenes::{
    CANCEL, CHARGED_BACK, FAILED, FIRST, LATE, PART, PAY, REFUNDED, SECOND, WON, with_stock,
};

type Answered = (Step, &'static str);

const FREE: Terms = Terms { is_priced: false, has_line: false, ..with_stock(1) };
const DRAWN: Terms = Terms { draw: Some(1_200), ..with_stock(1) };
const LESS: Money = Money(3, Less);
const DOUBLE: Money = Money(4, Twice);
const HALF: Step = GaveBack(0, 1, Money(4, Asked), By::ChargeBack, None);
const AGAIN: Step = Took(0, 1, SECOND);
/// Unasked, by a name of its own.
const R1: Step = GaveBack(0, 1, FIRST, By::Gateway, Some(1));
const R1_FAILED: Step = CameAgain(0, 1, FIRST, By::Gateway, Some(Name::Theirs(1)));
const R2_FAILED: Step = CameAgain(0, 1, FIRST, By::Gateway, Some(Name::Theirs(2)));
const SECOND_FAILED: Step = CameAgain(0, 1, FIRST, By::Gateway, Some(Name::Ours(2)));
const PART_R1: Step = GaveBack(0, 1, Money(1, Less), By::ChargeBack, Some(1));
const PART_R1_WON: Step = CameAgain(0, 1, Money(1, Less), By::ChargeBack, Some(Name::Theirs(1)));
const ASKED: [Answered; 4] =
    [(Buy(1, 0), "ordered"), (Open(0), "opened 1"), (LATE, ""), (Expire, "")];
const EXPIRED: [Answered; 6] =
    [ASKED[0], ASKED[1], ASKED[2], ASKED[3], (Gateway, "asked 0.1"), (Expire, "")];
const PAID: [Answered; 3] = [(Buy(1, 0), "ordered"), (Open(0), "opened 1"), (PAY, "applied")];

#[rustfmt::skip] // a table
const NAMED: &[(&str, Terms, &[Answered], &[Answered])] = &[
    ("a free order is paid at once and refunded at once", with_stock(1), &[], &[
        (Buy(1, 1), "ordered"), (Open(0), "refused paid"), (CANCEL, "refused paid"), (Buy(2, 1), "sold_out"),
        (Refund(0), "done"), (Gateway, ""), (Buy(2, 1), "ordered"),
    ]),
    ("the time to pay ends at its instant", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Pass(899), ""), (Expire, ""), (Open(0), "opened 1"), (Pass(1), ""),
        (Open(0), "refused cancelled"), (Buy(2, 0), "sold_out"), (Expire, ""), (Gateway, "asked 0.1"), (Expire, ""), (Gateway, "unwanted 0.1"),
        (Buy(2, 0), "ordered"),
    ]),
    ("an order of which nobody was sent to the gateway is cancelled at once", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (LATE, ""), (Expire, ""), (Gateway, ""), (Buy(2, 0), "ordered"),
    ]),
    ("whoever paid in time has the order, also if the gateway says so late", with_stock(1), &ASKED, &[
        (Buy(2, 0), "sold_out"), (Says(0, Said::Paid(FIRST)), "asked 0.1"), (PAY, "repeated"), (Expire, ""), (Gateway, ""),
        (Redeem(0), "done"),
    ]),
    ("an order waits for a silent gateway no longer than it may", with_stock(1), &ASKED, &[
        (Pass(59), ""), (Expire, ""), (Buy(2, 0), "sold_out"), (Pass(1), ""), (Expire, ""), (Gateway, "unwanted 0.1"),
        (Buy(2, 0), "ordered"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("a payment that failed cancels its order, and the gateway is not told", with_stock(1), &ASKED, &[
        (Says(0, Said::Failed), "asked 0.1"), (Expire, ""), (Gateway, ""), (Buy(2, 0), "ordered"),
    ]),
    ("another sum than was asked for goes back, and the order waits no longer", with_stock(1), &ASKED, &[
        (Says(0, Said::Paid(LESS)), "asked 0.1"), (Expire, ""), (Gateway, "refund 0.1 of 1: m3, 7999"), (Buy(2, 0), "ordered"),
    ]),
    ("nobody asks about an order that its buyer cancels", with_stock(1), &ASKED, &[
        (CANCEL, "done"), (Gateway, "unwanted 0.1"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("nobody asks about an order that is paid meanwhile", with_stock(1), &ASKED, &[
        (PAY, "applied"), (Gateway, ""), (Expire, ""), (Redeem(0), "done"),
    ]),
    ("an order of a cancelled sale waits for no gateway", with_stock(1), &ASKED, &[
        (CancelSale(0), "done"), (WindUp, ""), (Gateway, "unwanted 0.1"), (PAY, "order_cancelled"),
    ]),
    ("late money revives an order whose voucher is left", with_stock(1), &EXPIRED, &[
        (PAY, "revived"), (Gateway, ""), (Redeem(0), "done"),
    ]),
    ("late money goes back if somebody else has the voucher", with_stock(1), &EXPIRED, &[
        (Buy(2, 0), "ordered"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("late money goes back if its buyer bought again", with_stock(2), &EXPIRED, &[
        (Buy(1, 0), "too_many_requests"), (Pass(1), ""), (Buy(1, 0), "ordered"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("late money revives nothing of a cancelled sale", with_stock(1), &EXPIRED, &[
        (CancelSale(0), "done"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("a purchase that is sent again is the same order, whatever became of it", with_stock(2), &PAID, &[
        (BuyAgain(0), "ordered"), (Refund(0), "done"), (Gateway, "refund 0.1 of 1: m1, 8000"), (Buy(1, 0), "ordered"),
        (BuyAgain(0), "ordered"), (Pass(18_000), ""), (Expire, ""), (Buy(1, 0), "sale_ended"), (BuyAgain(1), "ordered"),
    ]),
    ("late money passes nobody in line", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (Enter(2, 0), "entered as 1"), (LATE, ""), (Expire, ""), (Gateway, "asked 0.1"), (Expire, ""),
        (PAY, "order_cancelled"), (Serve, ""), (Open(1), "opened 1"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("a wrong amount and a second payment go back", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (Took(0, 1, LESS), "wrong_amount"),
        (Took(0, 1, DOUBLE), "wrong_amount"), (PAY, "applied"), (Took(0, 1, SECOND), "order_paid"), (PAY, "repeated"),
        (Took(0, 1, LESS), "repeated"), (Gateway, "refund 0.1 of 1: m3, 7999, refund 0.2 of 1: m4, 16000, refund 0.4 of 1: m2, 8000"),
        (Refund(0), "done"), (Gateway, "refund 0.3 of 1: m1, 8000"),
    ]),
    ("notices come in any sequence", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (Failed(0, 1), "failed"), (Failed(0, 1), "repeated"),
        (Open(0), "opened 2"), (Took(0, 2, SECOND), "applied"), (Failed(0, 2), "repeated"), (PAY, "order_paid"),
        (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("the other payments of a paid order are not wanted", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (Failed(0, 1), "failed"), (Open(0), "opened 2"),
        (PAY, "applied"), (Gateway, "unwanted 0.2"), (Gateway, ""),
    ]),
    ("the gateway gives back by itself what is not given back again", with_stock(1), &PAID, &[
        (GaveBack(0, 1, Money(1, Twice), By::Gateway, None), "partial"), (REFUNDED, "returned"), (REFUNDED, "repeated"),
        (CHARGED_BACK, "returned_twice"), (CHARGED_BACK, "repeated"), (Gateway, ""), (Refund(0), "refused refunded"),
        (Settle(0), "refused refunded"), (Buy(2, 0), "ordered"),
    ]),
    ("what went back in parts is not asked for again", with_stock(1), &PAID, &[
        (Took(0, 1, DOUBLE), "wrong_amount"), (PART, "part_returned"), (PART, "repeated"),
        (GaveBack(0, 1, Money(1, Less), By::Gateway, None), "partial"), (HALF, "part_returned"), (Refund(0), "done"),
        (Gateway, "refund 0.1 of 1: m1, 1, refund 0.2 of 1: m4, 8000"), (PART, "repeated"), (CHARGED_BACK, "returned_twice"),
        (CHARGED_BACK, "repeated"), (GaveBack(0, 1, Money(4, Asked), By::Gateway, None), "repeated"), (HALF, "repeated"),
        (Buy(2, 0), "ordered"),
    ]),
    ("two halves are the whole", with_stock(1), &PAID, &[
        (Took(0, 1, DOUBLE), "wrong_amount"), (HALF, "part_returned"), (HALF, "returned"), (HALF, "repeated"),
        (PART, "part_returned"), (Redeem(0), "done"), (REFUNDED, "returned"), (Gateway, ""),
    ]),
    ("a refund that waits is not sent after the gateway's own", with_stock(1), &PAID, &[
        (Refund(0), "done"), (CHARGED_BACK, "returned"), (Gateway, ""), (Buy(2, 0), "ordered"),
    ]),
    ("a used voucher is charged back and stays used", with_stock(1), &PAID, &[
        (Redeem(0), "done"), (CHARGED_BACK, "returned"), (Refund(0), "refused used"), (Redeem(0), "refused used"), (Enter(1, 0), "already_bought"),
        (Buy(2, 0), "sold_out"),
    ]),
    ("money that went back before it came", with_stock(2), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (Buy(2, 0), "ordered"), (Open(1), "opened 1"),
        (GaveBack(1, 1, Money(1, Less), By::Gateway, None), "kept"), (GaveBack(1, 1, FIRST, By::Gateway, None), "kept"),
        (GaveBack(1, 1, FIRST, By::Gateway, None), "repeated"), (PAY, "returned"), (Gateway, ""),
        (Open(0), "refused refunded"), (Open(1), "opened 1"),
    ]),
    ("of a sum that went back in part before it came, the rest goes back", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (GaveBack(0, 1, Money(4, Asked), By::Gateway, None), "kept"),
        (Took(0, 1, DOUBLE), "wrong_amount"), (Gateway, "refund 0.1 of 1: m4, 8000"),
    ]),
    ("a refund that fails after all is asked for by another name", with_stock(1), &PAID, &[
        (Refund(0), "done"), (Gateway, "refund 0.1 of 1: m1, 8000"), (FAILED, "refund_failed"), (FAILED, "repeated"),
        (Redeem(0), "refused refunding"), (Buy(2, 0), "ordered"), (Pass(1), ""), (Gateway, ""), (Pass(1), ""),
        (Gateway, "refund 0.1-2 of 1: m1, 8000"), (FAILED, "repeated"), (Buy(1, 0), "sold_out"), (SECOND_FAILED, "refund_failed"),
        (Settle(0), "done"), (Pass(60), ""), (Gateway, ""), (FAILED, "repeated"), (SECOND_FAILED, "repeated"),
    ]),
    ("a refund that fails before it is known to be done is asked for by another name", with_stock(1), &PAID, &[
        (Refund(0), "done"), (FAILED, "refund_waits"), (FAILED, "repeated"), (SECOND_FAILED, "refund_waits"), (Gateway, ""),
        (Pass(4), ""), (Gateway, "refund 0.1-3 of 1: m1, 8000"), (FAILED, "repeated"), (Gateway, ""),
    ]),
    ("a refund of money that never paid an order is asked for again, without a step", with_stock(1), &EXPIRED, &[
        (Buy(2, 0), "ordered"), (PAY, "order_cancelled"), (Gateway, "refund 0.1 of 1: m1, 8000"), (FAILED, "refund_failed"),
        (Pass(2), ""), (Gateway, "refund 0.1-2 of 1: m1, 8000"), (Failed(0, 1), "was_refunded"),
    ]),
    ("what the gateway gave back by itself and failed is owed", with_stock(1), &PAID, &[
        (R1, "returned"), (Failed(0, 1), "was_refunded"), (R2_FAILED, "too_early"), (FAILED, "too_early"),
        (CameAgain(0, 1, Money(1, Less), By::Gateway, Some(Name::Theirs(1))), "other_amount"), (R1_FAILED, "refund_failed"),
        (R1, "repeated"), (R1_FAILED, "repeated"), (Failed(0, 1), "repeated"), (Pass(1), ""), (Gateway, "refund 0.1 of 1: m1, 8000"),
        (Settle(0), "refused refunded"),
    ]),
    ("a refund has the gateway's name, too, whichever notice comes first", with_stock(1), &PAID, &[
        (Refund(0), "done"), (R1, "returned"), (Gateway, ""), (FAILED, "refund_failed"), (R1_FAILED, "repeated"), (Pass(2), ""),
        (Gateway, "refund 0.1-2 of 1: m1, 8000"), (GaveBack(0, 1, FIRST, By::Gateway, Some(2)), "repeated"),
        (R2_FAILED, "refund_failed"), (Settle(0), "done"),
    ]),
    ("a charge-back of a used voucher is won", with_stock(1), &PAID, &[
        (WON, "too_early"), (Redeem(0), "done"), (CHARGED_BACK, "returned"), (WON, "charge_back_won"), (WON, "repeated"),
        (CHARGED_BACK, "repeated"), (GaveBack(0, 1, FIRST, By::ChargeBack, Some(2)), "returned"), (WON, "charge_back_won"),
        (Gateway, ""),
    ]),
    ("a charge-back that was won is told as new money", with_stock(1), &PAID, &[
        (Redeem(0), "done"), (CHARGED_BACK, "returned"), (AGAIN, "charge_back_won"), (AGAIN, "repeated"), (WON, "repeated"),
        (Gateway, ""), (GaveBack(0, 1, SECOND, By::ChargeBack, None), "returned"), (Took(0, 1, Money(5, Asked)), "charge_back_won"),
        (Took(0, 1, Money(6, Asked)), "order_paid"), (Gateway, "refund 0.4 of 1: m6, 8000"),
    ]),
    ("an order that a charge-back refunded stays so, and its money is kept", with_stock(1), &PAID, &[
        (CHARGED_BACK, "returned"), (Buy(2, 0), "ordered"), (WON, "charge_back_won"), (AGAIN, "unknown"),
        (Settle(0), "refused refunded"), (Gateway, ""), (REFUNDED, "returned"), (Gateway, ""),
    ]),
    ("a refund that was begun is owed again after a charge-back that was won", with_stock(1), &PAID, &[
        (Refund(0), "done"), (CHARGED_BACK, "returned"), (Gateway, ""), (WON, "charge_back_won"), (Pass(2), ""),
        (Gateway, "refund 0.1-2 of 1: m1, 8000"),
    ]),
    ("new money keeps an order refunded whose money was charged back", with_stock(1), &PAID, &[
        (CHARGED_BACK, "returned"), (AGAIN, "charge_back_won"), (WON, "repeated"), (Gateway, ""), (Buy(2, 0), "ordered"),
    ]),
    ("a part that was charged back and won is the order's again", with_stock(1), &PAID, &[
        (PART_R1, "part_returned"), (PART_R1, "repeated"), (PART_R1_WON, "charge_back_won"), (PART_R1_WON, "repeated"),
        (PART_R1, "repeated"), (Refund(0), "done"), (Gateway, "refund 0.1 of 1: m1, 8000"),
    ]),
    ("what went back before it came, and came again, pays for the order", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (CHARGED_BACK, "kept"), (WON, "charge_back_won"), (PAY, "applied"),
        (Redeem(0), "done"),
    ]),
    ("money of another order pays for nothing", with_stock(2), &PAID, &[
        (Buy(2, 0), "ordered"), (Open(1), "opened 1"), (Took(1, 1, FIRST), "unknown"),
        (GaveBack(1, 1, FIRST, By::ChargeBack, None), "returned"), (Open(0), "refused refunded"),
    ]),
    ("a refund is settled outside, and the gateway's own is the second", with_stock(1), &PAID, &[
        (Settle(0), "refused paid"), (Refund(0), "done"), (Settle(0), "done"), (Gateway, ""),
        (REFUNDED, "returned_twice"),
    ]),
    ("whoever does not pay and buys again waits as after a cancellation", with_stock(1), &EXPIRED, &[
        (Buy(1, 0), "too_many_requests"), (Pass(1), ""), (Buy(1, 0), "ordered"), (CANCEL, "refused cancelled"),
        (Cancel(1, Who::Buyer), "done"), (Pass(1), ""), (Buy(1, 0), "too_many_requests"), (Pass(1), ""),
        (Buy(1, 0), "ordered"), (LATE, ""), (Expire, ""), (Pass(3), ""), (Buy(1, 0), "too_many_requests"),
        (Pass(1), ""), (Buy(1, 0), "ordered"),
    ]),
    ("whoever cancels and buys again waits a while that doubles", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (CANCEL, "done"), (Buy(1, 0), "too_many_requests"), (Pass(1), ""),
        (Buy(1, 0), "ordered"), (Cancel(1, Who::Buyer), "done"), (Pass(1), ""), (Buy(1, 0), "too_many_requests"),
        (Pass(1), ""), (Buy(1, 0), "ordered"), (Cancel(2, Who::Administrator), "done"),
    ]),
    ("a cancelled sale is over for good", with_stock(2), &PAID, &[
        (Buy(2, 0), "ordered"), (Open(1), "opened 1"), (CancelSale(0), "done"), (WindUp, ""),
        (Took(1, 1, SECOND), "order_cancelled"), (Pause(0, false), "sale_cancelled"),
        (Restock(0, 1), "sale_cancelled"), (Buy(3, 0), "sale_ended"), (Gateway, "refund 0.1 of 1: m1, 8000, refund 1.1 of 1: m2, 8000"),
    ]),
    ("what comes back goes to the first in line, and when nobody waits to anybody", with_stock(1), &[], &[
        (Enter(2, 0), "line_closed"), (Buy(1, 0), "ordered"), (Enter(1, 0), "already_bought"),
        (Enter(2, 0), "entered as 1"), (Enter(3, 0), "entered as 2"), (Enter(3, 0), "entered_before"), (Leave(2, 0), "left"),
        (CANCEL, "done"), (Buy(2, 0), "line_open"), (Serve, ""), (Buy(3, 0), "already_bought"),
        (Buy(2, 0), "sold_out"), (LATE, ""), (Expire, ""), (Buy(2, 0), "ordered"),
    ]),
    ("whoever misses an offer may stand in line again", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Enter(2, 0), "entered as 1"), (Enter(3, 0), "entered as 2"), (CANCEL, "done"),
        (Serve, ""), (LATE, ""), (Expire, ""), (Serve, ""), (Enter(2, 0), "too_many_requests"), (Pass(1), ""),
        (Enter(2, 0), "entered as 1"), (Buy(3, 0), "already_bought"),
    ]),
    ("a sale that is paused offers nothing", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Enter(2, 0), "entered as 1"), (Pause(0, true), "changed"), (CANCEL, "done"), (Serve, ""),
        (Enter(3, 0), "sale_paused"), (Buy(3, 0), "sale_paused"), (Leave(2, 0), "left"), (Pass(18_000), ""),
        (Pause(0, false), "changed"), (Enter(3, 0), "sale_ended"),
    ]),
    ("a draw closes at its instant, and whoever is left goes to the line", DRAWN, &[], &[
        (Buy(1, 0), "draw_open"), (Enter(1, 0), "entered"), (Enter(1, 0), "entered_before"), (Enter(2, 0), "entered"),
        (Leave(2, 0), "left"), (Leave(2, 0), "not_entered"), (Enter(2, 0), "too_many_requests"), (Pass(1), ""),
        (Enter(2, 0), "entered"), (Leave(2, 0), "left"),
        (Serve, ""), (Pass(1_198), ""), (Enter(3, 0), "entered"), (Leave(3, 0), "left"), (Pass(1), ""),
        (Enter(3, 0), "draw_closed"), (Leave(1, 0), "draw_closed"), (Buy(1, 0), "draw_open"), (Serve, ""),
        (Buy(1, 0), "already_bought"), (Buy(2, 0), "sold_out"), (Enter(2, 0), "entered as 1"),
        (Enter(3, 0), "entered as 2"), (Leave(2, 0), "left"), (Pass(3), ""), (Enter(2, 0), "too_many_requests"),
        (Pass(1), ""), (Enter(2, 0), "entered as 2"),
    ]),
    ("whoever leaves and comes back waits a while that doubles, and is the last", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Enter(2, 0), "entered as 1"), (Enter(3, 0), "entered as 2"), (Leave(2, 0), "left"),
        (Enter(2, 0), "too_many_requests"), (Pass(1), ""), (Enter(2, 0), "entered as 2"), (Leave(2, 0), "left"), (Pass(1), ""),
        (Enter(2, 0), "too_many_requests"), (Pass(1), ""), (Enter(2, 0), "entered as 2"), (CANCEL, "done"), (Serve, ""),
        (Buy(3, 0), "already_bought"), (Leave(2, 0), "left"),
    ]),
    ("a draw of a sale that is paused or cancelled waits", DRAWN, &[], &[
        (Enter(1, 0), "entered"), (Pause(0, true), "changed"), (Enter(2, 0), "sale_paused"), (Pass(1_200), ""),
        (Serve, ""), (Leave(1, 0), "draw_closed"), (CancelSale(0), "done"), (Serve, ""), (Leave(1, 0), "left"),
    ]),
    ("what comes back is for sale from the moment that nobody waits", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Enter(2, 0), "entered as 1"), (Enter(3, 0), "entered as 2"), (Leave(2, 0), "left"),
        (Leave(3, 0), "left"), (Cancel(0, Who::Buyer), "done"), (Buy(2, 0), "ordered"), (Pass(1), ""),
        (Enter(3, 0), "entered as 1"),
    ]),
    ("of two early returns at one instant the refund counts first", with_stock(1), &[], &[
        (Buy(1, 0), "ordered"), (Open(0), "opened 1"), (CHARGED_BACK, "kept"), (REFUNDED, "kept"),
        (PAY, "returned_twice"), (Gateway, ""),
    ]),
];

/// The name, the life, and the answers.
pub fn all() -> impl Iterator<Item = (&'static str, Life, Vec<&'static str>)> {
    NAMED.iter().map(|(name, terms, before, then)| {
        let (steps, answers) = before.iter().chain(*then).copied().unzip();
        (*name, Life { terms: [*terms, FREE], steps }, answers)
    })
}

//! Sales, good and bad, and what the judge finds of each.

use super::*;
use crate::told::RefusedBuyers;

/// Buyers, and the codes that each of them heard.
type Heard = (u64, &'static [&'static str]);

const ALONE: Expectations = Expectations::ALONE;
const BESIDE: Expectations = Expectations::BESIDE_OTHERS;
const LATER: Expectations = Expectations { writes_later: true, ..ALONE };
const EXCUSES_ALL: Expectations = Expectations { excuses_one_in: Some(1), ..ALONE };
const EXCUSES_A_QUARTER: Expectations = Expectations { excuses_one_in: Some(4), ..ALONE };
const SOLD_TEN: &[Heard] = &[(10, &[ORDERED]), (10, &[SOLD_OUT])];
const SOLD_NINE: &[Heard] = &[(9, &[ORDERED]), (11, &[SOLD_OUT])];

/// The books of a sale of ten vouchers, all of them bought by the crowd.
fn books(orders: i64, distinct_users: i64, stock: i64) -> Books {
    Books {
        initial_stock: 10,
        stock,
        orders,
        distinct_users,
        orders_of_crowd: orders,
        lost: 0,
        twice: None,
        objections: Vec::new(),
    }
}

fn told(heard: &[Heard]) -> Told {
    let mut told = Told::default();
    for (buyers, codes) in heard {
        for code in *codes {
            *told.outcomes.entry((*code).to_owned()).or_default() += buyers;
        }
        match [ORDERED, ACCEPTED, ALREADY_BOUGHT].iter().any(|code| codes.contains(code)) {
            true => told.served += buyers,
            false => told.refused_buyers.push(RefusedBuyers {
                codes: codes.iter().map(|code| (*code).to_owned()).collect(),
                buyers: *buyers,
            }),
        }
    }
    told
}

/// A finding without the figures that show it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Oversold,
    Duplicates,
    Undersold,
    Misbooked,
    Lost,
    Untold,
    Objection,
    Unexpected,
}
use Fault::*;

/// What is found and not excused, each with its count where it has one.
fn faults(books: &Books, heard: &[Heard], expected: &Expectations) -> Vec<(Fault, i64)> {
    let verdict = judge(books, &told(heard), expected);
    let faults = verdict.findings.iter().filter(|finding| !finding.is_excused());
    let fault = |finding: &Finding| match finding {
        Finding::Oversold(count, _) => (Oversold, *count),
        Finding::Duplicates { beyond, .. } => (Duplicates, *beyond),
        Finding::Undersold(count, _) => (Undersold, *count),
        Finding::Misbooked(_) => (Misbooked, 1),
        Finding::Lost { orders, .. } => (Lost, *orders),
        Finding::Untold(orders) => (Untold, *orders),
        Finding::Objection(_) => (Objection, 1),
        Finding::Unexpected { outcomes, .. } => (Unexpected, number(outcomes.values().sum())),
        of_payments => unreachable!("{of_payments} is not for this judge to find"),
    };
    let faults: Vec<_> = faults.map(fault).collect();
    assert_eq!(verdict.holds(), faults.is_empty(), "{verdict:?}");
    faults
}

#[test]
fn a_sale_that_kept_its_promises_holds() {
    let failed: &[Heard] = &[(9, &[ORDERED]), (1, &[ORDER_IN_PROGRESS, UNAVAILABLE])];
    let of_others = Books { orders_of_crowd: 4, ..books(10, 10, 0) };
    for (case, books, heard, expected) in [
        ("all sold once", books(10, 10, 0), SOLD_TEN, ALONE),
        ("enough for everybody", books(9, 9, 1), &[(9, &[ORDERED])], ALONE),
        ("double clicks", books(9, 9, 1), &[(9, &[ORDERED, ALREADY_BOUGHT])], ALONE),
        ("others bought", of_others, &[(4, &[ORDERED]), (9, &[SOLD_OUT])], BESIDE),
        ("it ended", books(9, 9, 1), &[(9, &[ORDERED]), (5, &[SALE_ENDED])], BESIDE),
        ("an attempt failed", books(9, 9, 1), failed, BESIDE),
        ("written later", books(10, 10, 0), &[(10, &[ACCEPTED]), (9, &[SOLD_OUT])], LATER),
    ] {
        assert_eq!(faults(&books, heard, &expected), [], "{case}");
    }
}

#[test]
fn every_broken_promise_is_found() {
    let twelve: &[Heard] = &[(12, &[ORDERED]), (8, &[SOLD_OUT])];
    let twice: &[Heard] = &[(8, &[ORDERED]), (1, &[ORDERED, ORDERED])];
    let odd: &[Heard] = &[(10, &[ORDERED]), (3, &["no_answer"]), (2, &["http_500"])];
    let accepted: &[Heard] = &[(10, &[ACCEPTED]), (10, &[SOLD_OUT])];
    let one_left = || books(9, 9, 1);
    let bought = |codes| -> [Heard; 2] { [(9, &[ORDERED]), (1, codes)] };
    let five: &[Heard] = &[(5, &[ORDERED]), (3, &[SOLD_OUT])];
    let one_unknown: &[Heard] = &[(7, &[ORDERED]), (1, &[UNAVAILABLE]), (9, &[SOLD_OUT])];
    let not_sent: &[Heard] = &[(9, &[ORDERED]), (1, &[NOT_SENT]), (9, &[SOLD_OUT])];
    let gone = Books { lost: 1, ..books(10, 10, 0) };
    let objection = Books { objections: vec!["orphans: 1".to_owned()], ..books(10, 10, 0) };
    for (case, books, heard, expected, found) in [
        ("two too many", books(12, 12, -2), twelve, ALONE, &[(Oversold, 2)][..]),
        ("a lost update", books(12, 12, 0), twelve, ALONE, &[(Oversold, 2), (Misbooked, 1)]),
        ("twice to one", books(10, 9, 0), twice, ALONE, &[(Duplicates, 1)]),
        ("one left", books(9, 9, 1), SOLD_NINE, ALONE, &[(Undersold, 1)]),
        ("one vanished", books(9, 9, 0), SOLD_NINE, ALONE, &[(Undersold, 1)]),
        ("one sold itself", books(10, 10, 1), SOLD_TEN, ALONE, &[(Misbooked, 1)]),
        ("below zero", books(10, 10, -2), SOLD_TEN, ALONE, &[(Misbooked, 1)]),
        ("acknowledged and gone", gone.clone(), SOLD_TEN, ALONE, &[(Lost, 1)]),
        ("nobody was told", books(10, 10, 0), SOLD_NINE, ALONE, &[(Untold, 1)]),
        ("no proper answers", books(10, 10, 0), odd, ALONE, &[(Unexpected, 5)]),
        ("the audit objects", objection, SOLD_TEN, ALONE, &[(Objection, 1)]),
        ("accepted by no design", books(10, 10, 0), accepted, ALONE, &[(Unexpected, 10)]),
        ("never written", books(9, 9, 0), accepted, LATER, &[(Undersold, 1), (Lost, 1)]),
        ("another one was written", gone, SOLD_TEN, LATER, &[(Lost, 1)]),
        // A 503 to another attempt does not make "sold out" true.
        ("sold out", one_left(), &bought(&[SOLD_OUT, UNAVAILABLE]), BESIDE, &[(Undersold, 1)]),
        // The attempt in progress came to nothing.
        ("for ever", one_left(), &bought(&[ORDER_IN_PROGRESS]), ALONE, &[(Undersold, 1)]),
        // One fault, and not two: nobody was told "sold out".
        ("no answer", one_left(), &bought(&["no_answer"]), ALONE, &[(Unexpected, 1)]),
        ("bought, and has none", one_left(), &bought(&[ALREADY_BOUGHT]), ALONE, &[(Undersold, 1)]),
        // They are different vouchers: one vanished, three were refused.
        ("vanished and left", books(5, 5, 4), five, ALONE, &[(Undersold, 4)]),
        // An answer that never came explains one order, and what was not sent none.
        ("one unknown", books(10, 10, 0), one_unknown, BESIDE, &[(Untold, 2)]),
        ("not sent", books(10, 10, 0), not_sent, ALONE, &[(Untold, 1), (Unexpected, 1)]),
        // More was sold than there was, so nothing is unsold.
        ("lost updates", books(12, 12, 6), twelve, ALONE, &[(Oversold, 2), (Misbooked, 1)]),
    ] {
        assert_eq!(faults(&books, heard, &expected), found, "{case}");
    }
}

#[test]
fn every_excuse_is_honoured_and_no_other() {
    let half: &[Heard] = &[(10, &[ORDERED]), (10, &[UNAVAILABLE])];
    let quarter: &[Heard] = &[(10, &[ORDERED]), (5, &[SOLD_OUT]), (5, &[UNAVAILABLE])];
    let and_more: &[Heard] = &[(10, &[ORDERED]), (9, &[UNAVAILABLE]), (1, &["http_500"])];
    let nine: &[Heard] = &[(9, &[ORDERED]), (5, &[UNAVAILABLE])];
    for (case, books, heard, expected, found) in [
        ("nothing was left", books(10, 10, 0), half, EXCUSES_ALL, &[][..]),
        ("one in four", books(10, 10, 0), quarter, EXCUSES_A_QUARTER, &[]),
        ("more than that", books(10, 10, 0), half, EXCUSES_A_QUARTER, &[(Unexpected, 10)]),
        ("one was left", books(9, 9, 1), nine, EXCUSES_ALL, &[(Unexpected, 5)]),
        ("a fault beside it", books(10, 10, 0), and_more, EXCUSES_ALL, &[(Unexpected, 10)]),
        ("nobody allowed it", books(10, 10, 0), half, ALONE, &[(Unexpected, 10)]),
        ("a server others use", books(9, 9, 1), nine, BESIDE, &[]),
    ] {
        assert_eq!(faults(&books, heard, &expected), found, "{case}");
    }
    let said = judge(&books(10, 10, 0), &told(half), &EXCUSES_ALL).sentences();
    assert_eq!(said, ["10 attempts without a proper answer: 10 unavailable"], "said all the same");
}

#[test]
fn a_sentence_says_the_promise_and_the_figures_that_show_it() {
    let books = Books { lost: 1, twice: Some((7, vec![3, 4])), ..books(12, 11, -2) };
    let verdict = judge(&books, &told(&[(12, &[ORDERED]), (1, &["no_answer"])]), &ALONE);
    assert_eq!(
        verdict.sentences(),
        [
            "2 sold that did not exist: 12 orders for a stock of 10, and the column says -2",
            "1 sold twice to one buyer: 12 orders of 11; user 7 holds 3 and 4",
            "1 acknowledged orders lost",
            "1 attempts without a proper answer: 1 no_answer",
        ]
    );
    let counts = Counts { oversold: 2, duplicates: 1, lost: 1, unexpected: 1, ..Counts::default() };
    assert_eq!(verdict.counts(), counts);
}

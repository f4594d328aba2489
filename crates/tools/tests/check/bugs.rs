//! Seventeen bugs, each convicted by the promise that it breaks, and six designs that are right, acquitted.
//!
//! `make judge-bugs` does it ten times with fixed seeds. The other tests do once what needs no luck.

use futures_util::stream::{self, StreamExt};
use testkit::golden::assert_fields;

use super::shop::{CLOSED, Design, LATER, Shop};
use super::{Checked, ONE_ROUND, TWO_ROUNDS, check, replaced};

const RIGHT: [Design; 6] = [
    Design::Right,
    Design::Queues,
    Design::Repeats,
    Design::Expires,
    Design::BooksLate,
    Design::TenEach,
];

/// What stands before an order that a buyer was told of.
const OF_ORDER: &str = ", order ";

/// A design, the promise that it breaks, those that it breaks besides, and what is said of the first.
type Bug = (Design, &'static str, &'static [&'static str], &'static str);

const WRONG: [Bug; 17] = [
    (Design::Oversells(20), "no_oversell", &[], "sold that did not exist"),
    (Design::Oversells(1), "no_oversell", &[], "sold that did not exist"),
    (Design::Duplicates(20), "one_per_user", &[], "has the orders"),
    (Design::Duplicates(1), "one_per_user", &[], "has the orders"),
    (Design::DuplicatesPerNode, "one_per_user", &[], "has the orders"),
    (Design::DuplicatesLate, "one_per_user", &[], "has the orders"),
    (Design::ElevenEach, "one_per_user", &[], "has the orders"),
    // Who is told of an order that is lost tries again, and is told of another.
    (Design::LosesOrder, "no_lost_order", &["no_oversell", "one_per_user"], OF_ORDER),
    (Design::LosesOrderAndStock, "no_lost_order", &["no_undersell", "books_add_up"], OF_ORDER),
    (Design::SharesIds, "no_lost_order", &[], "two buyers were told of one order"),
    (Design::WritesThenRefuses, "no_untold_order", &[], " is in the books"),
    (Design::ForgetsDecrement, "books_add_up", &["no_oversell"], "the books do not add up"),
    (Design::RefusesLastTenth, "no_undersell", &[], "heard sold_out after"),
    (Design::RefusesOneInHundred, "no_undersell", &[], "heard sold_out after"),
    (Design::Fails, "every_attempt_answered", &[], "http_500"),
    (Design::ForgetsAccepted, "every_attempt_answered", &[], "heard nothing more in time"),
    (Design::SellsAfterTheEnd, "in_its_window", &[], "nothing may be sold now"),
];

/// Those whose gap is so narrow that it needs luck.
const NARROW: [Design; 3] =
    [Design::Oversells(1), Design::Duplicates(1), Design::DuplicatesPerNode];

/// Checks at once: two of them waiting for quiet books cost nothing.
const AT_ONCE: usize = 3;

/// The file for a design.
fn file(shop: &Shop, design: Design) -> String {
    let more = match design {
        Design::TenEach | Design::ElevenEach => "per_user = 10".to_owned(),
        Design::Right | Design::SellsAfterTheEnd => format!("closed = [{CLOSED}]"),
        _ => String::new(),
    };
    // Only where the books come behind it must show that nothing has to be said.
    let quiet = "quiet = \"100ms\"\n";
    let books = match design {
        Design::DuplicatesLate => ["", LATER],
        Design::BooksLate => ["", ""],
        Design::Queues | Design::ForgetsAccepted => ["quiet = \"300ms\"\n", LATER],
        // Where buyers may ask later, the order of answers proves no refusal false.
        Design::WritesThenRefuses => [quiet, LATER],
        Design::LosesOrder | Design::LosesOrderAndStock => [quiet, "within = \"2s\"\n"],
        _ => [quiet, ""],
    };
    shop.file(&more, &books.concat())
}

async fn judged(design: Design, seed: u64, rounds: u32) -> Checked {
    judged_at(&Shop::start(design).await, design, seed, rounds).await
}

async fn judged_at(shop: &Shop, design: Design, seed: u64, rounds: u32) -> Checked {
    let (seed, rounds) = (seed.to_string(), rounds.to_string());
    let arguments = ["--users", "300", "--seed", &seed, "--rounds", &rounds];
    check(&file(shop, design), &arguments).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten runs of each: make judge-bugs"]
async fn every_bug_is_convicted_and_every_right_design_acquitted_ten_times() {
    let ten_times = |(design, promise): (Design, Option<&'static str>)| async move {
        let mut right = 0;
        for seed in 1..=10 {
            // As many as there are by default, or fewer.
            let rounds = if NARROW.contains(&design) { 20 } else { 4 };
            let checked = judged(design, seed, rounds).await;
            let (broken, unknown) = (checked.with("broken"), checked.with("unknown"));
            right += usize::from(match promise {
                Some(promise) => broken.contains(&promise),
                None => broken.is_empty() && unknown.is_empty(),
            });
        }
        let (name, judged) = (format!("{design:?}"), promise.unwrap_or("acquitted"));
        println!("{name:<24} {judged:<24} {right} of 10");
        (right < 10).then_some(design)
    };
    let wrong = WRONG.map(|(design, promise, ..)| (design, Some(promise)));
    let designs = wrong.into_iter().chain(RIGHT.map(|design| (design, None)));
    let failures = stream::iter(designs).map(ten_times).buffer_unordered(AT_ONCE);
    let failures: Vec<Design> = failures.filter_map(std::future::ready).collect().await;
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_design_is_acquitted() {
    for design in RIGHT.into_iter().chain([Design::RepeatsUnnamed]) {
        judged(design, 1, 2).await.is_judged(&[], &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bug_that_needs_no_luck_is_convicted_at_once_by_a_witness_and_nothing_else_is() {
    // Ten seconds of quiet.
    let slow = [Design::DuplicatesLate];
    for (design, promise, besides, witness) in WRONG {
        if NARROW.contains(&design) || slow.contains(&design) {
            continue;
        }
        let shop = Shop::start(design).await;
        let checked = judged_at(&shop, design, 1, 2).await;
        let mut broken = checked.with("broken");
        assert!(broken.contains(&promise), "{design:?}: {checked:#?}");
        broken.retain(|broken| *broken != promise);
        assert_eq!(broken, besides, "{design:?}: {checked:#?}");
        assert_eq!(checked.with("unknown"), [""; 0], "{design:?}: {checked:#?}");
        let said = checked.said(promise);
        assert!(said.contains(witness), "{design:?}: {checked:#?}");
        if witness == OF_ORDER {
            let lost = shop.lost_orders();
            let mut named =
                said.split(OF_ORDER).skip(1).map(|text| text.split(' ').next().unwrap());
            assert!(named.all(|named| lost.iter().any(|lost| lost == named)), "{lost:?}: {said}");
        }
        assert_eq!(checked.ran.status, 1, "{design:?}: {checked:#?}");
        assert!(checked.ran.stdout.starts_with("BROKEN: "), "{design:?}: {checked:#?}");
        if design == Design::Fails {
            // With examples of answers.
            assert_fields("check --json", checked.result.as_ref().unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_proved_false_by_one_who_asked_later_and_was_served() {
    for has_books in [true, false] {
        let shop = Shop::start(Design::RefusesOneInHundred).await;
        let voucher = shop.on_sale(400);
        let text = match has_books {
            true => shop.file(&voucher, "quiet = \"100ms\"\n"),
            false => shop.file_without_books(&voucher),
        };
        let checked = check(&text, &["--users", "1000"]).await;
        assert_eq!(checked.with("broken"), ["no_undersell"], "{checked:#?}");
        let said = checked.said("no_undersell");
        assert!(said.contains("one who asked after that was served"), "{said}");
        let found = &checked["promises"][2]["findings"][0]["witnesses"];
        assert_eq!(found[0]["outcome"], "sold_out", "{checked:#?}");
        assert_eq!(found[1]["outcome"], "ordered", "{checked:#?}");
        assert_eq!(found[0]["said"], "{\"code\":\"sold_out\"}", "{checked:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_may_have_expired_by_the_files_word_are_not_lost() {
    for (expire, is_lost) in [("expire = \"500ms\"\n", false), ("", true)] {
        let shop = Shop::start(Design::Expires).await;
        // The books tell only of orders that live.
        let books = format!("list = \"/none\"\nquiet = \"1s\"\nwithin = \"4s\"\n{expire}");
        let checked = check(&shop.file("", &books), &ONE_ROUND).await;
        let broken = checked.with("broken");
        assert_eq!(broken.contains(&"no_lost_order"), is_lost, "{checked:#?}");
        assert!(is_lost || broken.is_empty(), "{checked:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_of_the_file_is_told_and_nobody_is_accused() {
    let of_requests = "those of requests or users";
    for (design, from, to, why) in [
        (Design::Right, "201\norder = \"/id\"", "[201, 409]", "rule for ordered is too wide"),
        (Design::Right, "\"{user}\" }", "\"7\", x = \"{user}\" }", "a token of their own"),
        (Design::Repeats, "order = \"/id\"", "order = \"/request\"", of_requests),
        (Design::Right, "order = \"/id\"", "order = \"/user\"", of_requests),
    ] {
        for is_fixed in [true, false] {
            let shop = Shop::start(design).await;
            let voucher = if is_fixed { shop.on_sale(10) } else { String::new() };
            let text = shop.file(&voucher, "quiet = \"50ms\"\nwithin = \"2s\"\n");
            let checked = check(&replaced(&text, from, to), &TWO_ROUNDS).await;
            assert_eq!(checked.with("broken"), [""; 0], "{why}, {is_fixed}: {checked:#?}");
            let said = checked.said("no_lost_order");
            assert!(said.contains(why), "{why}, {is_fixed}: {checked:#?}");
        }
    }
    let shop = Shop::start(Design::Right).await;
    let text = replaced(&shop.file("", "quiet = \"50ms\"\n"), "\"/id\"", "\"/di\"");
    let checked = check(&text, &TWO_ROUNDS).await;
    let notes = checked["notes"].to_string();
    assert!(notes.contains("points at nothing in all"), "{notes}");
}

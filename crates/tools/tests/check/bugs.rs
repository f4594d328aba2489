//! Seventeen bugs, each convicted by the promise that it breaks, and six designs that are right, acquitted.
//!
//! `make judge-bugs` does it ten times with fixed seeds. The other tests do once what needs no luck.

use futures_util::stream::{self, StreamExt};
use testkit::processes::place;

use super::shop::{CLOSED, Design, Shop};
use super::{check, said, with};

const RIGHT: [Design; 6] = [
    Design::Right,
    Design::Queues,
    Design::Repeats,
    Design::Expires,
    Design::BooksLate,
    Design::TenEach,
];

const WRONG: [(Design, &str); 17] = [
    (Design::OversellsWide, "no_oversell"),
    (Design::OversellsNarrow, "no_oversell"),
    (Design::DuplicatesWide, "one_per_user"),
    (Design::DuplicatesNarrow, "one_per_user"),
    (Design::DuplicatesPerNode, "one_per_user"),
    (Design::DuplicatesLate, "one_per_user"),
    (Design::ElevenEach, "one_per_user"),
    (Design::LosesOrder, "no_lost_order"),
    (Design::LosesOrderAndStock, "no_lost_order"),
    (Design::SharesIds, "no_lost_order"),
    (Design::WritesThenRefuses, "no_untold_order"),
    (Design::ForgetsDecrement, "books_add_up"),
    (Design::RefusesLastTenth, "no_undersell"),
    (Design::RefusesOneInHundred, "no_undersell"),
    (Design::Fails, "every_attempt_answered"),
    (Design::ForgetsAccepted, "every_attempt_answered"),
    (Design::SellsAfterTheEnd, "in_its_window"),
];

/// Those whose gap is so narrow that it needs luck.
const NARROW: [Design; 3] =
    [Design::OversellsNarrow, Design::DuplicatesNarrow, Design::DuplicatesPerNode];

/// How buyers ask what became of a purchase that was queued.
const LATER: &str = r#"
[later]
request = { path = "/mine/{voucher}", headers = { user = "{user}" } }
within = "5s"
[[later.answer]]
is = "ordered"
status = 201
order = "/id"
[[later.answer]]
is = "accepted"
status = 202
[[later.answer]]
is = "sold_out"
status = 409
"#;

/// Checks at once: two of them waiting for quiet books cost nothing.
const AT_ONCE: usize = 3;

/// The file for a design.
fn file(shop: &Shop, design: Design) -> String {
    let more = match design {
        Design::TenEach | Design::ElevenEach => "per_user = 10".to_owned(),
        Design::SellsAfterTheEnd => format!("closed = [{CLOSED}]"),
        _ => String::new(),
    };
    // Only where the books come behind it must show that nothing has to be said.
    let books = match design {
        Design::DuplicatesLate => LATER.to_owned(),
        Design::BooksLate => String::new(),
        Design::Queues | Design::ForgetsAccepted => format!("quiet = \"300ms\"\n{LATER}"),
        Design::LosesOrder | Design::LosesOrderAndStock => {
            "quiet = \"100ms\"\nwithin = \"2s\"\n".to_owned()
        }
        _ => "quiet = \"100ms\"\n".to_owned(),
    };
    shop.file(&more, &books)
}

/// The promises of a design that are broken, and those that are unknown.
async fn judged(design: Design, seed: u64, rounds: u32) -> (Vec<String>, Vec<String>) {
    let shop = Shop::start(design).await;
    let place = place();
    let (seed, rounds) = (seed.to_string(), rounds.to_string());
    let arguments = ["--users", "300", "--seed", &seed, "--rounds", &rounds];
    let (output, result) = check(place.path(), &file(&shop, design), &arguments).await;
    let result = result.unwrap_or_else(|| panic!("{design:?}: {output:?}"));
    let (broken, unknown) = (with(&result, "broken"), with(&result, "unknown"));
    let is_right = RIGHT.contains(&design);
    assert!(!is_right || broken.is_empty() && unknown.is_empty(), "{design:?}: {result:#}");
    (broken, unknown)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten runs of each: make judge-bugs"]
async fn every_bug_is_convicted_and_every_right_design_acquitted_ten_times() {
    let ten_times = |design: Design| async move {
        let promise = WRONG.iter().find(|(wrong, _)| *wrong == design).map(|(_, promise)| *promise);
        let mut right = 0;
        for seed in 1..=10 {
            // As many as there are by default, or fewer.
            let rounds = if NARROW.contains(&design) { 20 } else { 4 };
            let (broken, _) = judged(design, seed, rounds).await;
            right += usize::from(promise.is_none_or(|it| broken.iter().any(|found| found == it)));
        }
        println!("{design:<24?} {:<24} {right} of 10", promise.unwrap_or("acquitted"));
        (right < 10).then_some(design)
    };
    let designs = WRONG.map(|(design, _)| design).into_iter().chain(RIGHT);
    let failures = stream::iter(designs).map(ten_times).buffer_unordered(AT_ONCE);
    let failures: Vec<Design> = failures.filter_map(std::future::ready).collect().await;
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_design_is_acquitted() {
    for design in RIGHT {
        judged(design, 1, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bug_that_needs_no_luck_is_convicted_at_once() {
    // Ten seconds of quiet.
    let slow = [Design::DuplicatesLate];
    for (design, promise) in WRONG {
        if NARROW.contains(&design) || slow.contains(&design) {
            continue;
        }
        let (broken, _) = judged(design, 1, 2).await;
        assert!(broken.iter().any(|found| found == promise), "{design:?}: {broken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_proved_false_by_one_who_asked_later_and_was_served() {
    for books in ["quiet = \"100ms\"\n", ""] {
        let shop = Shop::start(Design::RefusesOneInHundred).await;
        let voucher = shop.voucher(400).await;
        let place = place();
        let text = shop.file_of(voucher, "", books);
        let text = if books.is_empty() { text.split_once("[books]").unwrap().0 } else { &text };
        let (output, result) = check(place.path(), text, &["--users", "1000", "--seed", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{output:?}"));
        assert_eq!(with(&result, "broken"), ["no_undersell"], "{result:#}");
        let said = said(&result, "no_undersell");
        assert!(said.contains("one who asked after that was served"), "{said}");
        let found = &result["promises"][2]["findings"][0]["witnesses"];
        assert_eq!(found[0]["outcome"], "sold_out", "{result:#}");
        assert_eq!(found[1]["outcome"], "ordered", "{result:#}");
        assert_eq!(found[0]["said"], "{\"code\":\"sold_out\"}", "{result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vouchers_that_vanish_do_not_add_up() {
    let (broken, _) = judged(Design::LosesOrderAndStock, 1, 1).await;
    assert!(broken.iter().any(|it| it == "books_add_up"), "{broken:?}");
    let (broken, _) = judged(Design::LosesOrder, 1, 1).await;
    assert!(!broken.iter().any(|it| it == "books_add_up"), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_may_have_expired_by_the_files_word_are_not_lost() {
    for (expire, broken) in [("expire = \"500ms\"\n", &[][..]), ("", &["no_lost_order"])] {
        let shop = Shop::start(Design::Expires).await;
        let place = place();
        // The books tell only of orders that live.
        let books = format!("list = \"/none\"\nquiet = \"1s\"\nwithin = \"4s\"\n{expire}");
        let (output, result) =
            check(place.path(), &shop.file("", &books), &["--rounds", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{output:?}"));
        let found = with(&result, "broken");
        assert!(broken.iter().all(|it| found.iter().any(|found| found == it)), "{result:#}");
        assert!(!broken.is_empty() || found.is_empty(), "{result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_of_the_file_is_told_and_nobody_is_accused() {
    for (design, from, to, why) in [
        (
            Design::Right,
            "status = 201\norder = \"/id\"",
            "status = [201, 409]",
            "rule for ordered is too wide",
        ),
        (
            Design::Right,
            "{ user = \"{user}\" }",
            "{ user = \"7\", x = \"{user}\" }",
            "a token of their own",
        ),
        (Design::Repeats, "order = \"/id\"", "order = \"/request\"", "those of requests or users"),
        (Design::Right, "order = \"/id\"", "order = \"/user\"", "those of requests or users"),
    ] {
        for is_fixed in [true, false] {
            let shop = Shop::start(design).await;
            let place = place();
            let quiet = "quiet = \"50ms\"\nwithin = \"2s\"\n";
            let text = match is_fixed {
                true => shop.file_of(shop.voucher(10).await, "", quiet),
                false => shop.file("", quiet),
            };
            assert!(text.contains(from), "{text}");
            let text = text.replacen(from, to, 1);
            let (output, result) = check(place.path(), &text, &["--rounds", "2"]).await;
            let result = result.unwrap_or_else(|| panic!("{why}: {output:?}"));
            assert_eq!(with(&result, "broken"), [""; 0], "{why}, {is_fixed}: {result:#}");
            let said = said(&result, "no_lost_order");
            assert!(said.contains(why), "{why}, {is_fixed}: {result:#}");
        }
    }
    let shop = Shop::start(Design::Right).await;
    let place = place();
    let text = shop.file("", "quiet = \"50ms\"\n").replacen("\"/id\"", "\"/di\"", 1);
    let (_, result) = check(place.path(), &text, &["--rounds", "2"]).await;
    let notes = result.unwrap()["notes"].to_string();
    assert!(notes.contains("points at nothing in all"), "{notes}");
}

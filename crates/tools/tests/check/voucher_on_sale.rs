//! A voucher that is on sale already meets all crowds.

use serde_json::Value;
use testkit::processes::place;

use super::target_server::{TargetServer, Wire, Wrong};
use super::{BOOKS, check, file, said, with};

async fn on_sale(wrong: Wrong, old: &[&str], stock: usize, more: &str) -> (Option<i32>, Value) {
    let target = TargetServer::start(wrong, Wire::KeepAlive).await;
    let voucher = target.voucher(stock, old);
    let place = place();
    let text = file(&target, &format!("voucher = {voucher}\n{more}"));
    let (output, result) = check(place.path(), &text, &[]).await;
    (output.status.code(), result.unwrap_or_else(|| panic!("{output:?}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_judged_by_what_came_after_the_crowd() {
    // Users 1 and 2 bought before; user 1 and a stranger, too, whom no crowd knows.
    let (status, result) = on_sale(Wrong::Nothing, &["1", "2", "stranger"], 10, BOOKS).await;
    assert_eq!((status, &result["holds"]), (Some(0), &true.into()), "{result:#}");
    let voucher = &result["vouchers"][0];
    assert_eq!((&voucher["stock"], &voucher["orders"]), (&10.into(), &10.into()), "{voucher}");
    assert!(result["notes"].to_string().contains("had 3 orders of 3 users before"), "{result:#}");
    let (status, result) = on_sale(Wrong::Oversells, &["1"], 10, BOOKS).await;
    assert_eq!((status, with(&result, "broken")), (Some(1), vec!["no_oversell".to_owned()]));
    let (_, result) = on_sale(Wrong::SellsTwice, &["7"], 100, BOOKS).await;
    assert_eq!(with(&result, "broken"), ["one_per_user"], "{result:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_who_buys_meanwhile_is_seen_where_the_books_name_the_users() {
    let (status, result) = on_sale(Wrong::SellsToStrangers, &[], 41, BOOKS).await;
    // With a voucher for each of them nothing shows that there is no other.
    assert_eq!((status, with(&result, "unknown")), (Some(2), vec!["no_oversell".to_owned()]));
    assert_eq!(with(&result, "broken"), [""; 0], "{result:#}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("1 new orders are of users who are not in the crowd"), "{notes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn books_may_be_longer_than_the_answer_to_a_purchase() {
    // More than 64 KiB as a list.
    let old: Vec<String> = (0..1_500).map(|user| format!("old{user}")).collect();
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let (status, result) = on_sale(Wrong::Nothing, &old, 10, BOOKS).await;
    assert_eq!((status, &result["vouchers"][0]["orders"]), (Some(0), &10.into()), "{result:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_that_was_not_sold_out_proves_nothing_of_overselling() {
    for (stock, unknown) in [(41, &["no_oversell"][..]), (40, &["no_oversell"]), (39, &[])] {
        let (status, result) = on_sale(Wrong::Nothing, &[], stock, BOOKS).await;
        assert_eq!(with(&result, "unknown"), unknown, "{stock}: {result:#}");
        assert_eq!(status, Some(if unknown.is_empty() { 0 } else { 2 }), "{result:#}");
        let said = said(&result, "no_oversell");
        assert_eq!(said.contains("more --users"), !unknown.is_empty(), "{result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_orders_of_the_rush_are_counted_without_those_of_the_double_clicks() {
    // Two of 40 buyers click twice.
    for wrong in [Wrong::Nothing, Wrong::BooksComeLate] {
        let (_, result) = on_sale(wrong, &["1", "old", "older"], 10, BOOKS).await;
        assert_eq!(result["vouchers"][0]["stock"], 10, "{wrong:?}: {result:#}");
        // One of the two had bought before, and two came early.
        assert_eq!(result["rush"]["durable_orders"], 10 - 1 - 2, "{wrong:?}: {result:#}");
        assert_eq!(result["holds"], true, "{wrong:?}: {result:#}");
    }
    let target = TargetServer::start(Wrong::Queues, Wire::KeepAlive).await;
    let place = place();
    let (_, result) = check(place.path(), &file(&target, BOOKS), &["--rounds", "1"]).await;
    assert_eq!(result.unwrap()["rush"]["durable_orders"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_shows_nothing_of_overselling_and_two_do() {
    for (users, unknown) in [("1", &["no_oversell"][..]), ("2", &[])] {
        let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
        let place = place();
        let (output, result) =
            check(place.path(), &file(&target, BOOKS), &["--users", users]).await;
        let result = result.unwrap_or_else(|| panic!("{output:?}"));
        assert_eq!(with(&result, "unknown"), unknown, "{users}: {result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_is_sold_out_already_is_refused() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let voucher = target.voucher(0, &["1"]);
    let place = place();
    let text = file(&target, &format!("voucher = {voucher}\n{BOOKS}"));
    let (output, _) = check(place.path(), &text, &[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("has a stock of 0 left: put a new one on sale"), "{said}");
}

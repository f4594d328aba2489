//! A voucher that is on sale already meets all crowds.

use super::shop::{Design, LATER, Shop};
use super::{Checked, ONE_ROUND, QUIET, check};

/// Checks a voucher with this stock, of which these users had orders before.
async fn on_sale(design: Design, old: &[&str], stock: i64) -> Checked {
    let shop = Shop::start(design).await;
    let voucher = format!("voucher = {}", shop.voucher(stock, old));
    check(&shop.file(&voucher, QUIET), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_judged_by_what_came_after_the_crowd() {
    // Users 1 and 2 bought before; user 1 and a stranger, too, whom no crowd knows.
    let checked = on_sale(Design::Right, &["1", "2", "stranger"], 10).await;
    checked.is_judged(&[], &[]);
    let voucher = &checked["vouchers"][0];
    assert_eq!((&voucher["stock"], &voucher["orders"]), (&10.into(), &10.into()), "{voucher}");
    let notes = checked["notes"].to_string();
    assert!(notes.contains("had 3 orders of 3 users before"), "{notes}");
    let checked = on_sale(Design::Oversells(20), &["1"], 10).await;
    checked.is_judged(&["no_oversell"], &[]);
    let checked = on_sale(Design::TenEach, &["7"], 100).await;
    assert_eq!(checked.with("broken"), ["one_per_user"], "{checked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_who_buys_meanwhile_is_seen_where_the_books_name_the_users() {
    // With a voucher for each of them nothing shows that there is no other.
    let checked = on_sale(Design::SellsToStrangers, &[], 41).await;
    checked.is_judged(&[], &["no_oversell"]);
    let notes = checked["notes"].to_string();
    assert!(notes.contains("1 new orders are of users who are not in the crowd"), "{notes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn books_may_be_longer_than_the_answer_to_a_purchase() {
    // More than 64 KiB as a list.
    let old: Vec<String> = (0..1_500).map(|user| format!("old{user}")).collect();
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let checked = on_sale(Design::Right, &old, 10).await;
    checked.is_judged(&[], &[]);
    assert_eq!(checked["vouchers"][0]["orders"], 10, "{checked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_that_is_enough_for_everybody_proves_nothing_of_overselling() {
    // On sale already, or new ones for each crowd.
    for (stock, users, is_enough) in [
        (Some(41), "40", true),
        (Some(40), "40", true),
        (Some(39), "40", false),
        (None, "1", true),
        (None, "2", false),
    ] {
        let shop = Shop::start(Design::Right).await;
        let voucher = stock.map(|stock| shop.on_sale(stock)).unwrap_or_default();
        let checked = check(&shop.file(&voucher, QUIET), &["--users", users]).await;
        checked.is_judged(&[], if is_enough { &["no_oversell"] } else { &[] });
        let said = checked.said("no_oversell");
        assert_eq!(said.contains("more --users"), is_enough, "{stock:?}, {users}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_orders_of_the_rush_are_counted_without_those_of_the_double_clicks() {
    // Two of 40 buyers click twice.
    for design in [Design::Right, Design::BooksLate] {
        let checked = on_sale(design, &["1", "old", "older"], 10).await;
        checked.is_judged(&[], &[]);
        assert_eq!(checked["vouchers"][0]["stock"], 10, "{design:?}: {checked:#?}");
        // One of the two had bought before, and two came early.
        assert_eq!(checked["rush"]["durable_orders"], 10 - 1 - 2, "{design:?}: {checked:#?}");
    }
    let shop = Shop::start(Design::Queues).await;
    let text = shop.file("", &[QUIET, LATER].concat());
    assert_eq!(check(&text, &ONE_ROUND).await["rush"]["durable_orders"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_is_sold_out_already_is_refused() {
    let checked = on_sale(Design::Right, &["1"], 0).await;
    checked.is_refused("has a stock of 0 left: put a new one on sale");
}

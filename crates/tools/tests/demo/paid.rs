//! Demos in which some buyers do not pay.

use super::{Demo, demo, number, told};
use testkit::golden::assert_fields;

/// Runs a demo in which not everybody pays, and holds the figures against each other.
async fn is_paid_for(arguments: &[&str], stock: i64) -> Demo {
    let demo = demo(arguments, None).await;
    demo.holds();
    assert!(demo.ran.stdout.contains("all of them paid for"), "{demo:#?}");
    let ordered = told(&demo.verdict, "ordered");
    assert!(ordered > stock, "{demo:#?}");
    demo.has(&[("stock", stock), ("orders", stock), ("paid", stock), ("payments", stock)]);
    demo.has(&[("remaining", 0), ("oversold", 0), ("duplicates", 0), ("undersold", 0)]);
    demo.has(&[("lost", 0), ("refunds", 0), ("lost_payments", 0)]);
    demo.has(&[("expired", ordered - stock), ("cancelled", ordered - stock)]);
    assert!(number(&demo.verdict, "waves") > 1, "{demo:#?}");
    for words in ["Price: 80.00.", "Paying: ", "to expire, then wave 2", "Wave 2: "] {
        assert!(demo.ran.stderr.contains(words), "{words}: {demo:#?}");
    }
    demo
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_paid_is_sold_again_until_all_is_paid_for() {
    let arguments = ["--pay", "0.6", "--stock", "30", "--users", "100", "--attempts", "2"];
    let demo = is_paid_for(&arguments, 30).await;
    assert_fields("demo --json, with --pay", &demo.verdict);
}

/// Of each voucher's ten buyers five pay: those who come last among them get the last one.
#[tokio::test(flavor = "multi_thread")]
async fn every_buyer_who_pays_is_served_though_many_others_come_first() {
    let arguments = ["--pay", "0.5", "--vouchers", "2", "--stock", "5", "--users", "20"];
    let arguments = [&arguments[..], &["--nodes", "3", "--strategy", "locked"]].concat();
    let verdict = is_paid_for(&arguments, 10).await.verdict;
    for voucher in verdict["vouchers"].as_array().unwrap() {
        assert_eq!((number(voucher, "paid"), number(voucher, "payments")), (5, 5), "{verdict}");
    }
}

//! Demos in which some buyers do not pay.

use testkit::golden::assert_fields;
use testkit::processes::{living_in, place};

use super::{CODES, demo, number, told};

/// Runs a demo in which not everybody pays, and holds the figures against each other.
async fn is_paid_for(arguments: &[&str], stock: i64) -> serde_json::Value {
    let place = place();
    let (output, verdict) = demo(place.path(), arguments, None).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("HOLDS") && said.contains("all of them paid for"), "{said}");
    let ordered = told(&verdict, "ordered");
    assert!(ordered > stock, "{verdict}");
    for (field, figure) in [
        ("stock", stock),
        ("orders", stock),
        ("paid", stock),
        ("payments", stock),
        ("remaining", 0),
        ("oversold", 0),
        ("duplicates", 0),
        ("undersold", 0),
        ("lost", 0),
        ("refunds", 0),
        ("lost_payments", 0),
        ("expired", ordered - stock),
        ("cancelled", ordered - stock),
    ] {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
    let outcomes = verdict["outcomes"].as_object().unwrap();
    assert!(outcomes.keys().all(|code| CODES.contains(&code.as_str())), "{verdict}");
    assert!(number(&verdict, "waves") > 1, "{verdict}");
    let lines = String::from_utf8_lossy(&output.stderr);
    for words in ["Price: 80.00.", "Paying: ", "to expire, then wave 2", "Wave 2: "] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert_eq!(living_in(place.path()), [0; 0]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_paid_is_sold_again_until_all_is_paid_for() {
    let arguments = ["--pay", "0.6", "--stock", "30", "--users", "100", "--attempts", "2"];
    let verdict = is_paid_for(&arguments, 30).await;
    assert_fields("demo --json, with --pay", &verdict);
}

/// Of each voucher's ten buyers five pay: those who come last among them get the last one.
#[tokio::test(flavor = "multi_thread")]
async fn every_buyer_who_pays_is_served_though_many_others_come_first() {
    let arguments = ["--pay", "0.5", "--vouchers", "2", "--stock", "5", "--users", "20"];
    let arguments = [&arguments[..], &["--nodes", "3", "--strategy", "locked"]].concat();
    let verdict = is_paid_for(&arguments, 10).await;
    for voucher in verdict["vouchers"].as_array().unwrap() {
        assert_eq!((number(voucher, "paid"), number(voucher, "payments")), (5, 5), "{verdict}");
    }
}

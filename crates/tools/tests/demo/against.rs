//! The same crowd at a design of the ladder, beside the sale.

use super::{demo, number, told};
use testkit::golden::assert_fields;
use testkit::program::Program;

/// 20 buyers and a stock of 40: whoever sells all of it sells to somebody twice.
const CROWD: [&str; 6] = ["--stock", "40", "--users", "20", "--attempts", "4"];

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_design_breaks_beside_a_sale_that_holds() {
    let arguments = [&CROWD[..], &["--against", "r02"]].concat();
    let demo = demo(&arguments, None).await;
    demo.holds();
    demo.has(&[("orders", 20), ("duplicates", 0)]);
    let other = &demo.verdict["against"];
    assert_fields("demo --json, against: a rush of the lab", other);
    assert_eq!((&other["rung"], &other["holds"]), (&"r02_row_lock".into(), &false.into()));
    // Nothing in r02 looks at who buys.
    let duplicates = number(other, "duplicates");
    assert!((20..40).contains(&duplicates), "{other}");
    assert_eq!((number(other, "orders"), number(other, "oversold")), (40, 0), "{other}");
    let said = &demo.ran.stdout;
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("HOLDS: 40 vouchers, 20 orders"), "{said}");
    let broken = format!("r02_row_lock: BROKEN: {duplicates} sold twice to one buyer: 40 orders");
    assert!(lines[1].starts_with(&broken) && lines.len() == 2, "{said}");
    let row = demo.ran.stderr.lines().find(|line| line.contains("duplicates")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["duplicates", "0", &duplicates.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_design_that_writes_later_is_judged_when_it_has_written() {
    let arguments = ["--stock", "30", "--users", "60", "--attempts", "2", "--against", "r20"];
    let demo = demo(&arguments, None).await;
    demo.holds();
    let other = &demo.verdict["against"];
    assert!(other["holds"].as_bool().unwrap(), "{other}");
    assert_eq!((number(other, "orders"), number(other, "remaining")), (30, 0));
    // The answers were promises.
    assert_eq!(told(other, "ordered"), 30, "{other}");
}

/// It says what is on sale before it looks for the rung.
#[tokio::test]
async fn a_rung_that_is_not_there_is_refused_before_the_sale() {
    for rung in ["r99", "../r01", "--help", ""] {
        let ran = Program::alone().run(&["demo", &format!("--against={rung}")]).await;
        let said = format!("--against: there is no {rung:?}; there is: ");
        assert!(ran.status == 2 && ran.stderr.contains(&said), "{ran:?}");
        assert!(!ran.stderr.contains("The rush"), "{ran:?}");
    }
}

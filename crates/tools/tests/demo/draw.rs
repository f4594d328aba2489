//! A crowd of whom a tenth is fast, at a sale where whoever comes first is served first, and at a draw.

use testkit::program::Program;

use super::{demo, number};

#[tokio::test(flavor = "multi_thread")]
async fn coming_first_serves_the_fast_and_a_draw_serves_everybody_alike() {
    let demo = demo(&["--draw", "--users", "600"], None).await;
    let (said, draw) = (&demo.ran.stdout, &demo.verdict["draw"]);
    // By chance alone it is above the bound once in 1,000 times, and then it says so.
    let is_fair = draw["chi_square"].as_f64().unwrap() <= draw["bound"].as_f64().unwrap();
    assert_eq!(demo.ran.status == 0, is_fair, "{demo:#?}");
    assert_eq!(demo.verdict["holds"], is_fair, "{demo:#?}");
    if is_fair {
        let first = "HOLDS: 2 vouchers with a stock of 200 in all, 200 orders, nobody twice";
        assert!(said.starts_with(first), "{said}");
    }
    assert!(said.contains("Draw: the fast tenth got "), "{said}");
    let of = |group: &str, what: &str| number(&draw[group], what);
    assert_eq!(of("fast", "buyers") + of("slow", "buyers"), number(draw, "entries"));
    if number(draw, "late") == 0 {
        assert_eq!((of("fast", "buyers"), of("slow", "buyers")), (60, 540));
    }
    assert_eq!(of("fast", "drawn") + of("slow", "drawn"), 100);
    assert_eq!(of("fast", "first_come") + of("slow", "first_come"), 100);
    // On a machine that is busy with something else some come after the close.
    assert_eq!(number(draw, "entries") + number(draw, "late"), 600);
    assert!(number(draw, "drawn_after_ms") >= 0, "{draw}");
    // All of them come 49 ms before the first of the others; how many that serves is a matter of how busy the machine is.
    assert!(
        of("fast", "first_come") > of("fast", "buyers") * 100 / number(draw, "entries"),
        "{draw}"
    );
    let table = &demo.ran.stderr;
    assert!(table.contains("draw, the fast tenth") && table.contains('█'), "{table}");
}

#[tokio::test]
async fn what_makes_no_sense_beside_a_draw_is_refused() {
    for (arguments, why) in [
        (&["--pay", "0.7"][..], "cannot be used with"),
        (&["--vouchers", "2"], "cannot be used with"),
        (&["--attempts", "5"], "cannot be used with"),
        (&["--against", "r01"], "cannot be used with"),
        (&["--stock", "49"], "--draw needs a --stock of at least 50"),
        (&["--users", "149"], "at least 50 --users more"),
    ] {
        let ran = Program::alone().run(&[&["demo", "--draw"][..], arguments].concat()).await;
        assert!(ran.status == 2 && ran.stderr.contains(why), "{arguments:?}: {ran:?}");
    }
}

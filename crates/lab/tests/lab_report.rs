//! The lab's report in all its forms, made of cells and rushes that nobody had to play.

use ladder::{Answer, Awaited, RUNGS, Rung, Scenario};
use load::latency::LatencyMs;
use load::verdict::{Counts, CrowdVerdict, Figures};
use report::{Table, escape};
use seckill_lab::report::terminal::{self, Look};
use seckill_lab::report::{Environment, LabReport, NoRush, html};
use seckill_lab::told::Event;
use seckill_lab::{Cell, LadderPlace, Outcome, RushOptions, RushReport, TimelineLine, cells};
use serde_json::Value;

use testkit::golden::assert_fields;
use testkit::shop::web_driver::Browser;

fn cell(rung: &'static Rung, scenario: Scenario) -> Cell {
    let holds = rung.claims_to_survive(scenario);
    Cell {
        of: LadderPlace { rung: rung.id, scenario, invariant: scenario.invariant() },
        claimed_errors: None,
        errors: None,
        claimed: if holds { Outcome::Holds } else { Outcome::Breaks },
        observed: if holds { Outcome::Holds } else { Outcome::Breaks },
        witness: (!holds).then(|| "voucher 1: user 1 holds 2 orders: 8 and 9".into()),
        elapsed_ms: 42,
        timeline: vec![
            TimelineLine::of_the_lab(Event::OnSale { voucher: 1, stock: 2 }),
            TimelineLine::of("A", Event::Wants { user: 1, voucher: 1, process: 1 }),
            TimelineLine::of("B", Event::Wants { user: 1, voucher: 1, process: 2 }),
            TimelineLine::of("B", Event::Waits { what: Awaited::Release }),
            TimelineLine::of("A", Event::Answered { answer: Answer::Ordered(1) }),
            TimelineLine::of("B", Event::Answered { answer: Answer::AlreadyBought }),
        ],
    }
}

/// A rush that loses what its rung does not claim.
fn rush(nth: usize, rung: &'static Rung) -> RushReport {
    use ladder::Invariant::{NoOversell, NoUndersell, OnePerUser};
    let lost = |claim, count| if rung.claims.contains(&claim) { 0 } else { count };
    let (oversold, duplicates) = (lost(NoOversell, 12), lost(OnePerUser, 3));
    let undersold = lost(NoUndersell, 7);
    let broken = [(NoOversell, oversold), (OnePerUser, duplicates), (NoUndersell, undersold)];
    let broken = broken.into_iter().filter(|(_, count)| *count > 0).map(|(promise, _)| promise);
    let found = Counts { oversold, duplicates, undersold, ..Counts::default() };
    let orders = 100 + oversold - undersold;
    RushReport {
        rung: rung.id.to_owned(),
        seed: 7,
        crowd: CrowdVerdict {
            figures: Figures { stock: 100, users: 2000, orders, remaining: 0, found },
            outcomes: [("ordered".to_owned(), 100)].into(),
            elapsed_ms: 400.0,
            orders_per_s: 300.0 * (1 + nth % 3) as f64 + 17.0 * nth as f64,
            answers_per_s: 5000.0,
            latency_ms: Some(LatencyMs { p50: 20.0, p95: 80.0, p99: 120.0, max: 150.0 }),
            holds: found == Counts::default(),
        },
        broken: broken.collect(),
        witnesses: Vec::new(),
        written_later: None,
        as_claimed: true,
    }
}

fn report() -> LabReport {
    LabReport {
        environment: Environment {
            date: "2026-11-11T00:00:00Z".parse().unwrap(),
            seckill: "0.1.0",
            revision: Some("0123abc".to_owned()),
            cores: Some(2),
            postgresql: Some("15.1".to_owned()),
            redis: Some("7.0".to_owned()),
            zookeeper: None,
        },
        rungs: RUNGS.iter().collect(),
        cells: cells().map(|(rung, scenario)| cell(rung, scenario)).collect(),
        crowd: RushOptions { users: 2000, ..RushOptions::default() },
        rushes: RUNGS.iter().enumerate().map(|(nth, rung)| rush(nth, rung)).collect(),
        no_rushes: Vec::new(),
    }
}

/// With one cell changed.
fn with(change: impl FnOnce(&mut Cell)) -> LabReport {
    let mut report = report();
    let double_click = |cell: &&mut Cell| {
        cell.of.rung == "r02_row_lock" && cell.of.scenario == Scenario::DoubleClick
    };
    change(report.cells.iter_mut().find(double_click).unwrap());
    report
}

/// With one cell that came out so, and why.
fn coming_out(observed: Outcome, why: Option<&'static str>) -> LabReport {
    with(|cell| (cell.observed, cell.witness) = (observed, why.map(Into::into)))
}

fn that_holds() -> LabReport {
    coming_out(Outcome::Holds, None)
}

#[test]
fn the_json_has_the_keys_that_are_promised() {
    let mut report = coming_out(Outcome::Skipped, Some("install it"));
    report.rushes.truncate(2);
    report.no_rushes = vec![
        NoRush { rung: "r03_version_cas", reason: "install it".to_owned(), skipped: true },
        NoRush { rung: "r04_stock_guard", reason: "it hung".to_owned(), skipped: false },
    ];
    let json = serde_json::to_value(&report).unwrap();
    let first = &json["cells"][0];
    assert_fields("lab all --json", &json);
    assert_eq!(first["rung"], "r01_naive");
    assert_eq!(first["scenario"], "last_one");
    assert_eq!(first["invariant"], "no_oversell");
    assert_eq!((&first["claimed"], &first["observed"]), (&"breaks".into(), &"breaks".into()));
    assert_eq!(first["timeline"][0]["actor"], Value::Null);
    assert_eq!(first["timeline"][1]["actor"], "A");
    assert!(json["cells"].as_array().unwrap().iter().all(|cell| cell["observed"] != "skipped"));
    assert_eq!(json["cells"].as_array().unwrap().len(), report.cells.len() - 1);
    let skipped = serde_json::json!([
        { "rung": "r02_row_lock", "scenario": "double_click", "reason": "install it" },
        { "rung": "r03_version_cas", "reason": "install it" },
    ]);
    assert_eq!(json["skipped"], skipped);
    assert_eq!(json["rushes_unknown"][0]["rung"], "r04_stock_guard");
    assert_eq!(json["as_claimed"], false);
    assert_eq!(json["environment"]["redis"], "7.0");
    let absent = json["absent"].as_array().unwrap();
    assert!(absent.iter().any(|it| it["rung"] == "r01_naive" && it["scenario"] == "early_release"));
    assert!(absent.iter().all(|it| it["reason"].as_str().is_some_and(|why| !why.is_empty())));
}

#[test]
fn what_speaks_against_the_ladder_is_named_and_what_was_skipped_does_not() {
    let [mut lost, mut hung] = [report(), report()];
    (lost.rushes[1].crowd.holds, lost.rushes[1].as_claimed) = (false, false);
    lost.rushes[1].witnesses = vec!["104 orders for a stock of 100".to_owned()];
    let reason = "it hung for ever".to_owned();
    hung.no_rushes = vec![NoRush { rung: "r01_naive", reason, skipped: false }];
    let skipped = || coming_out(Outcome::Skipped, Some("install it"));
    for (report, objection) in [
        (report(), ""),
        (skipped(), ""),
        (that_holds(), "r02_row_lock double_click: one_per_user holds, NOT as claimed"),
        (coming_out(Outcome::Unknown, Some("it hung")), "it hung"),
        (lost, "r02_row_lock rush: breaks, NOT as claimed (104 orders for a stock of 100)"),
        (hung, "r01_naive rush: unknown (it hung for ever)"),
    ] {
        let objections = report.objections();
        assert_eq!(objections.len(), usize::from(!objection.is_empty()), "{objections:?}");
        assert!(objections.concat().contains(objection), "{objections:?}");
        let is_as_claimed = objections.is_empty();
        assert_eq!(report.is_as_claimed(), is_as_claimed, "{objection}");
        let word = if is_as_claimed { "AS CLAIMED: " } else { "NOT AS CLAIMED: " };
        assert!(report.verdict().starts_with(word), "{}", report.verdict());
    }
    assert!(skipped().verdict().contains("1 skipped (r02_row_lock double_click)"));
    let rendered = terminal::render(&skipped(), Look::PLAIN);
    assert!(rendered.contains("r02_row_lock double_click: install it"), "{rendered}");
}

/// The signs of a row of the matrix.
fn signs<'a>(matrix: &'a str, scenario: &str) -> Vec<&'a str> {
    let row = matrix.lines().find(|line| line.trim_start().starts_with(scenario)).unwrap();
    row.split_whitespace().skip(1).collect()
}

#[test]
fn the_matrix_in_plain_text_has_a_sign_for_every_rung() {
    let matrix = terminal::matrix(&report(), Look::PLAIN);
    assert!(!matrix.contains('\u{1b}'), "{matrix:?}");
    for scenario in ["last_one", "double_click", "two_nodes", "herd", "rush"] {
        assert_eq!(signs(&matrix, scenario).len(), RUNGS.len(), "{matrix}");
    }
    assert_eq!(signs(&matrix, "last_one")[..2], ["✗", "✓"], "{matrix}");
    assert_eq!(signs(&matrix, "early_release")[0], "·", "{matrix}");
    assert_eq!(signs(&matrix, "double_click")[1], "✗", "{matrix}");
    let wrong = terminal::matrix(&that_holds(), Look::PLAIN);
    assert_eq!(signs(&wrong, "double_click")[1], "!✓", "{wrong}");
}

#[test]
fn a_narrow_terminal_gets_the_matrix_in_pieces_that_fit() {
    for width in [30, 40, 60, 80, 100] {
        let look = Look { width: Some(width), colour: false };
        let matrix = terminal::matrix(&report(), look);
        let longest = matrix.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{longest} of {width}:\n{matrix}");
        let rows = matrix.lines().filter(|line| line.trim_start().starts_with("last_one"));
        let found: usize = rows.map(|row| row.split_whitespace().count() - 1).sum();
        assert_eq!(found, RUNGS.len(), "{matrix}");
    }
    let colours = Look { width: Some(100), colour: true };
    assert!(terminal::matrix(&report(), colours).contains("\u{1b}[32m"));
}

#[test]
fn nothing_in_a_report_becomes_markup() {
    let script = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>";
    let page = html::page(&with(|cell| {
        (cell.observed, cell.witness) = (Outcome::Unknown, Some(script.into()));
        cell.timeline.push(TimelineLine::of("A<b>", script));
    }));
    assert!(!page.contains("<script>alert") && !page.contains("<img") && !page.contains("<b>\""));
    assert_eq!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count(), 5, "{page}");
}

#[test]
fn the_page_names_nothing_that_is_elsewhere() {
    let page = html::page(&that_holds());
    for word in ["=\"http", "=\"//", " src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
}

/// The expressions in JavaScript come to a text.
const LOADED: &str = "performance.getEntriesByType('resource').map(it => it.name).join(' ')";
const DANGLING: &str = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')) \
    .filter(to => to[0] != '#' || !document.getElementById(to.slice(1))).join(' ')";
/// Whether the page is not wider than its window, and on a phone the matrix is.
const FITS: &str = "String(document.documentElement.scrollWidth <= innerWidth && \
    (innerWidth > 360 || document.querySelector('.scroll').scrollWidth > innerWidth))";
/// This one holds, and what holds is folded up.
const PLACE: &str = "#r02_row_lock--last_one";
const SHOWN: &str = "(it => it.closest('details').open + ' ' + \
    (it.getBoundingClientRect().top < innerHeight))(document.getElementById('r02_row_lock--last_one'))";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_nobody_for_anything_scrolls_its_matrix_alone_and_unfolds_what_is_linked() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    std::fs::write(&page, html::page(&report())).unwrap();
    let url = url::Url::from_file_path(page).unwrap();
    for (place, width, probe, expected) in [
        ("", 1280, LOADED, ""),
        ("", 1280, DANGLING, ""),
        ("", 360, FITS, "true"),
        ("", 768, FITS, "true"),
        ("", 1280, FITS, "true"),
        ("", 1280, SHOWN, "false false"),
        (PLACE, 1280, SHOWN, "true true"),
    ] {
        let browser = Browser::new("en", (width, 800)).await;
        browser.open(&format!("{url}{place}")).await;
        assert_eq!(browser.value("innerWidth").await, width, "{place}");
        assert_eq!(browser.value(probe).await, expected, "{place} {width}: {probe}");
    }
}

#[test]
fn what_a_target_says_does_not_move_the_cursor() {
    assert_eq!(escape("a\u{1b}[2Jb\r\n库存\u{202e}"), "a\\u{1b}[2Jb\\r\\n库存\\u{202e}");
}

#[test]
fn figures_stand_under_each_other_and_text_begins_at_its_left_edge() {
    let mut table = Table::new(&["券", "left", ""], &[2]);
    table.add(["one", "5", "holds"]);
    table.add(["双人下午茶", "1000", "BROKEN"]);
    assert_eq!(table.text(), "券          left\none            5  holds\n双人下午茶  1000  BROKEN");
}

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
    assert!(report().is_as_claimed() && report().objections().is_empty());
    assert!(report().verdict().starts_with("AS CLAIMED: "));

    let wrong = that_holds();
    assert!(!wrong.is_as_claimed() && wrong.verdict().starts_with("NOT AS CLAIMED: "));
    let [objection] = &wrong.objections()[..] else { panic!("{:?}", wrong.objections()) };
    assert!(objection.starts_with("r02_row_lock double_click: one_per_user holds, NOT as claimed"));

    let unknown = coming_out(Outcome::Unknown, Some("it hung"));
    assert!(!unknown.is_as_claimed());
    assert!(unknown.objections()[0].contains("it hung"), "{:?}", unknown.objections());

    let skipped = coming_out(Outcome::Skipped, Some("install it"));
    assert!(skipped.is_as_claimed() && skipped.objections().is_empty());
    assert!(skipped.verdict().contains("1 skipped (r02_row_lock double_click)"));
    assert!(
        terminal::render(&skipped, Look::PLAIN).contains("r02_row_lock double_click: install it")
    );

    let mut lost = report();
    (lost.rushes[1].crowd.holds, lost.rushes[1].as_claimed) = (false, false);
    lost.rushes[1].witnesses = vec!["104 orders for a stock of 100".to_owned()];
    assert!(!lost.is_as_claimed());
    assert!(
        lost.objections()[0]
            .contains("r02_row_lock rush: breaks, NOT as claimed (104 orders for a stock of 100)")
    );

    let mut hung = report();
    let reason = "it hung".to_owned();
    hung.no_rushes = vec![NoRush { rung: "r01_naive", reason, skipped: false }];
    assert!(!hung.is_as_claimed());
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

#[tokio::test(flavor = "multi_thread")]
async fn the_page_names_nothing_that_is_elsewhere_and_asks_nobody_for_anything() {
    let page = html::page(&that_holds());
    for word in ["=\"http", "=\"//", " src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
    let loaded = "performance.getEntriesByType('resource').map(it => it.name).join(' ')";
    assert_eq!(probed(&that_holds(), "", 1280, loaded).await, "");
}

/// What `probe`, an expression in JavaScript, comes to in the page, which has so many pixels and was opened at `place`.
async fn probed(report: &LabReport, place: &str, width: u32, probe: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    std::fs::write(&page, html::page(report)).unwrap();
    let browser = Browser::new("en", (width, 800)).await;
    browser.open(&format!("{}{place}", url::Url::from_file_path(page).unwrap())).await;
    browser.value(probe).await.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_never_scrolls_sideways_and_the_matrix_does() {
    let probe = "[innerWidth, document.documentElement.scrollWidth, \
                 document.querySelector('.scroll').scrollWidth].join(' ')";
    for width in [360, 768, 1280] {
        let measured = probed(&report(), "", width, probe).await;
        let measured: Vec<u32> = measured.split(' ').map(|it| it.parse().unwrap()).collect();
        let [window, page, matrix] = measured[..] else { panic!("{measured:?}") };
        assert!(window == width && page <= window, "{measured:?}");
        assert!(width > 360 || matrix > window, "{measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_of_the_page_leads_to_something_and_unfolds_it() {
    let dangling = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')) \
                    .filter(to => to[0] != '#' || !document.getElementById(to.slice(1))).join(' ')";
    assert_eq!(probed(&report(), "", 1280, dangling).await, "");
    // It holds, and what holds is folded up.
    let place = "r02_row_lock--last_one";
    let shown = format!(
        "(() => {{ const it = document.getElementById('{place}'); \
         return it.closest('details').open + ' ' + (it.getBoundingClientRect().top < innerHeight); }})()"
    );
    assert_eq!(probed(&report(), "", 1280, &shown).await, "false false");
    assert_eq!(probed(&report(), &format!("#{place}"), 1280, &shown).await, "true true");
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

//! What is deployed for operators against the program: alerts and the dashboard name metrics that exist, none
//! is forgotten, and each alert has its section on the page and its test.

use std::collections::BTreeSet;

use super::read;

const ALERTS: &str = "deploy/observability/alerts.yml";
const DASHBOARD: &str = "deploy/observability/dashboard.json";

/// Every word of `text` that begins as our metrics do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("seckill_") || word.starts_with("redisson_lock_"))
        .map(str::to_owned)
        .collect()
}

/// The metrics that the program and the lock count.
fn registered() -> BTreeSet<String> {
    let constant = |line: &str| {
        let name = line.trim().strip_prefix("pub const ")?.split_once("&str = \"")?.1;
        Some(name.split('"').next()?.to_owned())
    };
    let lock = read("crates/redisson-lock/src/metric.rs");
    let of_lock = lock.lines().filter_map(constant);
    let of_lock = of_lock.filter(|name| metrics_in(name).contains(name));
    let of_server = seckill::telemetry::NAMES.iter().map(|name| (*name).to_owned());
    let registered: BTreeSet<_> = of_server.chain(of_lock).collect();
    assert!(registered.len() > 20, "only {registered:?}");
    registered
}

/// The metric of a series of Prometheus: histograms have three kinds.
fn metric_of(series: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|kind| series.strip_suffix(kind))
        .unwrap_or(series)
}

fn after<'a>(text: &'a str, begin: &str) -> BTreeSet<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(begin)).map(str::trim).collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist_and_the_dashboard_shows_all() {
    let registered = registered();
    for file in [ALERTS, DASHBOARD] {
        for series in metrics_in(&read(file)) {
            assert!(registered.contains(metric_of(&series)), "{file}: there is no {series}");
        }
    }
    let dashboard = read(DASHBOARD);
    let shown: BTreeSet<String> =
        metrics_in(&dashboard).iter().map(|series| metric_of(series).to_owned()).collect();
    let missing: Vec<_> = registered.difference(&shown).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
}

#[test]
fn label_values_in_alerts_and_dashboard_exist() {
    let routes = read("tests/api/snapshots/openapi.json");
    for file in [ALERTS, DASHBOARD] {
        let text = read(file).replace("\\\"", "\"");
        let used: Vec<_> = text.split("route=\"").skip(1).collect();
        assert!(!used.is_empty(), "{file} names no route");
        for rest in used {
            let route = rest.split('"').next().unwrap();
            assert!(routes.contains(&format!("\"{route}\": {{")), "{file}: no route {route}");
        }
    }
    let alerts = read(ALERTS);
    let outcomes = [seckill::telemetry::UNAVAILABLE, seckill::telemetry::INTERNAL_ERROR];
    for rest in alerts.split("outcome=\"").skip(1) {
        let outcome = rest.split('"').next().unwrap();
        assert!(outcomes.contains(&outcome), "no outcome {outcome}");
    }
}

#[test]
fn each_alert_has_its_section_and_its_test() {
    let (alerts, page) = (read(ALERTS), read("deploy/observability/README.md"));
    let test = read("deploy/observability/alerts_test.yml");
    let alerts = after(&alerts, "- alert:");
    assert!(alerts.len() > 10, "only {alerts:?}");
    assert_eq!(alerts, after(&page, "## "), "alerts and sections of the page");
    // `exp_alerts` is of those that must fire; the other line, of those that must not.
    let fires: BTreeSet<_> = after(&test, "alertname:");
    assert_eq!(alerts, fires, "alerts and tests in which they fire");
    for alert in alerts {
        assert!(test.contains(&format!(", alertname: {alert} }}")), "{alert} is never silent");
    }
}

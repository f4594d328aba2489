//! Speed against promises kept: what each mend costs.

use maud::{Markup, html};

use super::label;
use crate::report::LabReport;
use ladder::Invariant;

/// Units of the drawing, which is scaled to the width there is.
const WIDTH: f64 = 800.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 56.0;
const ROW: f64 = 40.0;
/// A label beside a point: where two would cover each other, one goes higher.
const LABEL_WIDTH: f64 = 40.0;
const LABEL_HEIGHT: f64 = 15.0;

struct PlotPoint {
    label: &'static str,
    anchor: String,
    title: String,
    rate: f64,
    kept: usize,
    wrong: bool,
}

/// Nothing where there was no rush.
pub(super) fn section(report: &LabReport) -> Markup {
    if report.rushes.is_empty() {
        return html! {};
    }
    let promises = promises(report);
    html! {
        section aria-labelledby="plot" {
            h2 #plot { "Speed against promises kept" }
            p {
                "To the right: orders a second in the rush (" (report.crowd.users) " buyers for "
                (report.crowd.stock) " vouchers). Upward: how many of the " (promises.len())
                " promises no replay and no rush broke. Each rung's figures are in its chapter."
            }
            div.scroll tabindex="0" role="region" aria-labelledby="plot" {
                (drawing(&points(report, &promises), promises.len()))
            }
        }
    }
}

/// Those that something here could have broken.
fn promises(report: &LabReport) -> Vec<Invariant> {
    let mut promises: Vec<Invariant> = report.scenarios().into_iter().map(|(it, _)| it).collect();
    let of_a_rush = [Invariant::NoOversell, Invariant::OnePerUser, Invariant::NoUndersell];
    promises.extend(of_a_rush.into_iter().chain([Invariant::NoLostOrder]));
    promises.sort_unstable();
    promises.dedup();
    promises
}

fn points(report: &LabReport, promises: &[Invariant]) -> Vec<PlotPoint> {
    let mut points = Vec::new();
    for rung in &report.rungs {
        let Some(rush) = report.rush(rung) else { continue };
        let broken = report.broken(rung);
        let names: Vec<&str> = broken.iter().map(|invariant| invariant.as_str()).collect();
        let breaks = if names.is_empty() {
            "breaks none".to_owned()
        } else {
            format!("breaks {}", names.join(", "))
        };
        points.push(PlotPoint {
            label: label(rung),
            anchor: format!("#{}", rung.id),
            title: format!("{}: {:.0} orders per second, {breaks}", rung.id, rush.orders_per_s),
            rate: rush.orders_per_s.max(0.1),
            kept: promises.len() - broken.len(),
            wrong: !rush.as_claimed
                || report.cells.iter().any(|it| it.rung == rung.id && it.is_wrong()),
        });
    }
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    points
}

/// 1, 2, 5, 10, … around what is to be shown.
fn ticks(points: &[PlotPoint]) -> Vec<f64> {
    let rates = || points.iter().map(|point| point.rate);
    let (low, high) = (rates().fold(f64::MAX, f64::min), rates().fold(0.1, f64::max));
    let all: Vec<f64> =
        (-1..=6).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power))).collect();
    let first = all.iter().rposition(|tick| *tick <= low * 0.9).unwrap_or(0);
    let last = all.iter().position(|tick| *tick >= high * 1.1).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// For each point how many labels are below its own.
fn levels(points: &[PlotPoint], x: impl Fn(f64) -> f64) -> Vec<usize> {
    let mut taken: Vec<Vec<f64>> = Vec::new();
    points
        .iter()
        .map(|point| {
            taken.resize(taken.len().max(point.kept + 1), Vec::new());
            let row = &mut taken[point.kept];
            let free = row.iter().position(|end| x(point.rate) - end >= LABEL_WIDTH);
            let level = free.unwrap_or(row.len());
            row.resize(row.len().max(level + 1), f64::MIN);
            row[level] = x(point.rate);
            level
        })
        .collect()
}

fn drawing(points: &[PlotPoint], promises: usize) -> Markup {
    let ticks = ticks(points);
    let (low, high) = (ticks[0].log10(), ticks[ticks.len() - 1].log10());
    let x = |rate: f64| LEFT + (rate.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let levels = levels(points, x);
    // The row of those that keep `kept`: its middle, from the top down.
    let least = points.iter().map(|point| point.kept).min().unwrap_or(0);
    let mut rows = Vec::new();
    let mut bottom = TOP;
    for kept in (least..=promises).rev() {
        let of_row = points.iter().zip(&levels).filter(|(point, _)| point.kept == kept);
        let highest = of_row.map(|(_, level)| *level).max().unwrap_or(0);
        bottom += ROW + LABEL_HEIGHT * highest as f64;
        rows.push((kept, bottom - ROW / 4.0));
    }
    let y = |kept: usize| rows[promises - kept].1;
    let height = bottom + BOTTOM;
    html! {
        svg.plot viewBox=(format!("0 0 {WIDTH} {height}")) role="group" aria-label="orders per second against promises kept" {
            @for tick in &ticks {
                line.grid x1=(x(*tick)) x2=(x(*tick)) y1=(TOP) y2=(bottom) {}
                text.tick x=(x(*tick)) y=(bottom + 18.0) text-anchor="middle" { (tick) }
            }
            text.axis x=((LEFT + WIDTH - RIGHT) / 2.0) y=(bottom + 42.0) text-anchor="middle" { "orders per second" }
            @for (kept, middle) in &rows {
                line.row x1=(LEFT) x2=(WIDTH - RIGHT) y1=(middle) y2=(middle) {}
                text.tick x=(LEFT - 12.0) y=(middle + 4.0) text-anchor="end" { (kept) " of " (promises) }
            }
            // What is not as claimed comes last, and so on top.
            @let wrong_last = [false, true].into_iter().flat_map(|wrong| {
                points.iter().zip(&levels).filter(move |(point, _)| point.wrong == wrong)
            });
            @for (point, level) in wrong_last {
                (drawn(point, *level, x(point.rate), y(point.kept), promises))
            }
        }
    }
}

/// All promises kept: a disc. Some: a ring. Not as claimed: a square, and an exclamation mark.
fn drawn(point: &PlotPoint, level: usize, x: f64, y: f64, promises: usize) -> Markup {
    let name = y - 12.0 - LABEL_HEIGHT * level as f64;
    let class = match (point.wrong, point.kept == promises) {
        (true, _) => "wrong",
        (false, true) => "holds",
        (false, false) => "breaks",
    };
    html! {
        a.point.(class) href=(point.anchor) aria-label=(point.title) {
            title { (point.title) }
            @if level > 0 { line.leader x1=(x) x2=(x) y1=(y) y2=(name + 2.0) {} }
            @if point.wrong {
                rect x=(x - 6.0) y=(y - 6.0) width="12" height="12" {}
            } @else {
                circle cx=(x) cy=(y) r="6" {}
            }
            text x=(x) y=(name) text-anchor="middle" { (point.label) @if point.wrong { "!" } }
        }
    }
}

//! A chapter: what a rung is, how it is written, what was done to it and what came of it.

use maud::{Markup, html};

use super::{cell_anchor, class, label, mechanism, prose, sign, timeline};
use crate::report::{LabReport, Outcome};
use crate::{Cell, RushReport};
use course::source_code::tokens;
use ladder::{Rung, Scenario};
use seckill::http::Language;

pub(super) fn chapter(report: &LabReport, rung: &Rung) -> Markup {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.of.rung == rung.id).collect();
    let absent: Vec<(Scenario, &str)> = report
        .absent()
        .filter(|(of, ..)| of.id == rung.id)
        .map(|(_, scenario, reason)| (scenario, reason))
        .collect();
    html! {
        article.rung id=(rung.id) aria-labelledby=(format!("{}--title", rung.id)) {
            h3 id=(format!("{}--title", rung.id)) {
                span.number { (label(rung)) } " " (mechanism(rung))
                a.up href="#matrix" title="to the matrix" aria-label="to the matrix" { "↑" }
            }
            (lines(rung))
            @if !rung.claims.is_empty() {
                p.claims {
                    "Claims to keep "
                    @for (nth, claim) in rung.claims.iter().enumerate() {
                        @if nth > 0 { ", " } code { (claim) }
                    }
                }
            }
            details.code {
                summary { "The code, as it is shipped: " code { "crates/ladder/src/" (rung.id) ".rs" } }
                pre { code { (highlighted(rung.source)) } }
            }
            @for cell in &cells { (replay(cell)) }
            @if let Some(rush) = report.rush(rung) { (self::rush(report, rush)) }
            @if !absent.is_empty() {
                details.absent {
                    summary { (absent.len()) " scenarios make no sense here" }
                    ul {
                        @for (scenario, reason) in &absent {
                            li { code { (scenario) } ": it " (reason) }
                        }
                    }
                }
            }
        }
    }
}

/// Rust in colours.
fn highlighted(source: &str) -> Markup {
    html! {
        @for token in tokens(source) {
            @match token.class {
                Some(class) => span.(class) { (token.text) },
                None => (token.text),
            }
        }
    }
}

/// The four lines that each rung says of itself.
fn lines(rung: &Rung) -> Markup {
    html! {
        dl.lines {
            @for name in ["Idea", "Holds", "Breaks when", "Next"] {
                @let line = rung.line(name);
                @if !line.is_empty() {
                    dt { (name) }
                    dd { (prose(&line)) }
                }
            }
        }
    }
}

/// What is worth looking at is open: where something broke.
fn replay(cell: &Cell) -> Markup {
    let (mark, wrong) = (cell.observed, cell.is_wrong());
    html! {
        details.cell.(class(mark, wrong)) open[wrong || mark == Outcome::Breaks] {
            summary {
                span.swatch.(class(mark, wrong)) { (sign(mark, wrong)) }
                span {
                    b { (cell.of.scenario) } " " span.story { (cell.of.scenario.story(Language::English)) }
                    br;
                    span.outcome { code { (cell.of.invariant) } " " (cell.outcome()) }
                }
            }
            div.body id=(cell_anchor(cell.of.rung, Some(cell.of.scenario))) {
                @if !cell.timeline.is_empty() { (timeline::table(&cell.timeline)) }
                @if let Some(witness) = &cell.witness { p.witness { (witness) } }
                p.elapsed { (cell.elapsed_ms) " ms" }
            }
        }
    }
}

fn rush(report: &LabReport, rush: &RushReport) -> Markup {
    let (mark, wrong) = (Outcome::from(rush), !rush.as_claimed);
    let found = rush.crowd.figures.found;
    html! {
        details.cell.(class(mark, wrong)) open {
            summary {
                span.swatch.(class(mark, wrong)) { (sign(mark, wrong)) }
                span {
                    b { "rush" } " "
                    span.story { (report.crowd.users) " buyers for " (report.crowd.stock) " vouchers, all at once, some of them twice" }
                    br;
                    span.outcome { (rush.outcome()) ": " (rush.losses()) }
                }
            }
            div.body id=(cell_anchor(&rush.rung, None)) {
                dl.figures {
                    (figure("orders", &rush.crowd.figures.orders.to_string()))
                    (figure("orders per second", &format!("{:.0}", rush.crowd.orders_per_s)))
                    @if let Some(latency) = rush.crowd.latency_ms {
                        (figure("median answer", &format!("{:.0} ms", latency.p50)))
                        (figure("99 % within", &format!("{:.0} ms", latency.p99)))
                    }
                    @if let Some(later) = rush.written_later {
                        (figure("promised per second", &format!("{:.0}", later.answered_per_s)))
                        (figure("durable per second", &format!("{:.0}", later.durable_per_s)))
                        (figure("behind at the last answer", &format!("{} orders", later.behind)))
                        (figure("until all was written", &format!("{:.1} s", later.behind_s)))
                        (figure("promised, never written", &later.missing.to_string()))
                    }
                    (figure("oversold", &found.oversold.to_string()))
                    (figure("twice to one buyer", &found.duplicates.to_string()))
                    (figure("undersold", &found.undersold.to_string()))
                    (figure("lost", &found.lost.to_string()))
                }
                @for witness in &rush.witnesses { p.witness { (witness) } }
            }
        }
    }
}

fn figure(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

//! Every cell at a glance: rungs down, scenarios across, grouped by the promise at stake.

use maud::{Markup, html};

use super::{cell_anchor, class, name, sign};
use crate::report::{LabReport, Outcome};
use crate::{Cell, RushReport, absent};
use ladder::{Rung, Scenario};
use seckill::http::Language;

pub(super) fn section(report: &LabReport) -> Markup {
    let groups = report.scenarios();
    html! {
        section aria-labelledby="matrix" {
            h2 #matrix { "The matrix" }
            p {
                "Down: the designs. Across: what was done to them, under the promise that is at "
                "stake. A broken promise is nothing wrong with the lab: it is what this design is "
                "there to show. Every sign leads to what happened."
            }
            div.scroll tabindex="0" role="region" aria-labelledby="matrix" {
                table.matrix {
                    colgroup { col; }
                    @for (_, scenarios) in &groups { colgroup { @for _ in scenarios { col; } } }
                    thead {
                        tr {
                            th rowspan="2" scope="col" { "design" }
                            @for (invariant, scenarios) in &groups {
                                th.group colspan=(scenarios.len()) scope="colgroup" { (invariant) }
                            }
                            @if !report.rushes.is_empty() {
                                th.group scope="colgroup" { "all" }
                            }
                        }
                        tr {
                            @for (_, scenarios) in &groups {
                                @for (nth, scenario) in scenarios.iter().enumerate() {
                                    th.scenario.first[nth == 0] scope="col" title=(scenario.story(Language::English)) {
                                        span { (scenario) }
                                    }
                                }
                            }
                            @if !report.rushes.is_empty() {
                                th.scenario.first scope="col" title="a real crowd" { span { "rush" } }
                            }
                        }
                    }
                    tbody { @for rung in &report.rungs { (row(report, rung)) } }
                }
            }
            (legend())
        }
    }
}

fn row(report: &LabReport, rung: &Rung) -> Markup {
    html! {
        tr {
            th scope="row" { a href=(format!("#{}", rung.id)) title=(rung.idea(Language::English)) { (name(rung)) } }
            @for (_, scenarios) in report.scenarios() {
                @for (nth, scenario) in scenarios.into_iter().enumerate() {
                    (cell(rung, scenario, report.cell(rung, scenario), nth == 0))
                }
            }
            @if !report.rushes.is_empty() { (rush(rung, report.rush(rung))) }
        }
    }
}

fn cell(rung: &Rung, scenario: Scenario, cell: Option<&Cell>, first: bool) -> Markup {
    let Some(cell) = cell else {
        let why = absent(scenario, rung).unwrap_or("was not played");
        let title = format!("{}, {scenario}: makes no sense here, because it {why}", rung.id);
        return html! {
            td.absent.first[first] title=(title) { span role="img" aria-label=(title) { (Outcome::Absent.sign()) } }
        };
    };
    let (mark, wrong) = (cell.observed, cell.is_wrong());
    let witness = cell.witness.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let title =
        format!("{}, {scenario}: {} {}{witness}", rung.id, cell.of.invariant, cell.outcome());
    html! {
        td.(class(mark, wrong)).first[first] {
            a href=(format!("#{}", cell_anchor(rung.id, Some(scenario)))) title=(title) aria-label=(title) {
                (sign(mark, wrong))
            }
        }
    }
}

fn rush(rung: &Rung, rush: Option<&RushReport>) -> Markup {
    let Some(rush) = rush else {
        let title = format!("{}, rush: no result", rung.id);
        return html! {
            td.absent.first title=(title) { span role="img" aria-label=(title) { (Outcome::Absent.sign()) } }
        };
    };
    let (mark, wrong) = (Outcome::from(rush), !rush.as_claimed);
    let title = format!("{}, rush: {}: {}", rung.id, rush.outcome(), rush.losses());
    html! {
        td.first.(class(mark, wrong)) {
            a href=(format!("#{}", cell_anchor(rung.id, None))) title=(title) aria-label=(title) {
                (sign(mark, wrong))
            }
        }
    }
}

fn legend() -> Markup {
    let marks =
        [Outcome::Holds, Outcome::Breaks, Outcome::Unknown, Outcome::Skipped, Outcome::Absent];
    html! {
        ul.legend aria-label="Signs" {
            @for mark in marks {
                li { span.swatch.(class(mark, false)) { (mark.sign()) } " " (mark) }
            }
            li { span.swatch.wrong { b { "!" } } " not as claimed" }
        }
    }
}

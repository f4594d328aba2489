//! A check's report as one page that needs nothing else: to send to a colleague.

use load::latency::LatencyMs;
use maud::{Markup, html};
use report::{Document, Scripts};

use super::promises::{PromiseVerdict, ThreeValued};
use super::report::{CheckReport, ExampleText, RushRates};
use super::tables::{answers, vouchers};

/// The page.
#[must_use]
pub fn page(report: &CheckReport) -> String {
    let title = format!("seckill check: {}", report.target);
    let class = if report.is_broken() {
        "broken"
    } else if report.holds {
        "holds"
    } else {
        "unknown"
    };
    let body = html! {
        header {
            p.kicker { "seckill check" }
            h1 { (report.target) }
            p { (report.addresses.join(", ")) }
            p class={ "verdict " (class) } { (report.sentence()) }
        }
        main {
            section { h2 { "Promises" } ul.promises { @for it in &report.promises { (promise(it)) } } }
            (figures(report))
            section { h2 { "Vouchers" } (vouchers(&report.vouchers).html()) }
            @if !report.examples.is_empty() { (examples(&report.examples)) }
            @if !report.notes.is_empty() {
                section { h2 { "Notes" } ul { @for note in &report.notes { li { (note) } } } }
            }
        }
        footer {
            p { (report.users) " buyers; a double click is " (report.attempts) " attempts at once; seed "
                (report.seed) "." }
        }
    };
    // Nothing on the page may run, whatever a target said.
    let style = include_str!("report.css");
    Document { title: &title, style, scripts: Scripts::Forbidden }.page(&body)
}

fn promise(it: &PromiseVerdict) -> Markup {
    let class = match it.verdict {
        ThreeValued::Holds => "holds",
        ThreeValued::Broken => "broken",
        ThreeValued::Unknown => "unknown",
    };
    html! {
        li class=(class) {
            p { span.sign { (it.verdict.word()) } " " b { (it.promise.meaning()) } " " code { (it.promise.name()) } }
            @if !it.sentences.is_empty() { ul { @for sentence in &it.sentences { li { (sentence) } } } }
        }
    }
}

fn figures(report: &CheckReport) -> Markup {
    html! {
        section {
            h2 { "Answers" }
            div.columns {
                (answers(report).html())
                dl {
                    @if let Some(rush) = &report.rush { (rates(rush)) }
                    @if let Some(LatencyMs { p50, p95, p99, max }) = report.latency_ms {
                        dt { "latency: p50, p95, p99, max" }
                        dd { (p50) ", " (p95) ", " (p99) ", " (max) " ms" }
                    }
                }
            }
        }
    }
}

fn rates(rush: &RushRates) -> Markup {
    html! {
        dt { "answers a second" }
        dd { (rush.answers_per_s) }
        @if let Some(durable) = rush.durable_orders_per_s {
            dt { "durable orders a second" }
            dd { (durable) }
        }
        @if let Some(behind) = rush.behind_ms {
            dt { "orders behind the answers" }
            dd { (behind) " ms" }
        }
        dt { "attempts in the rush, connections" }
        dd { (rush.attempts) ", " (rush.connections) }
    }
}

fn examples(examples: &[ExampleText]) -> Markup {
    html! {
        section {
            h2 { "Examples of answers that no rule knows" }
            @for it in examples {
                p { b { (it.outcome) } " in the crowd " (it.crowd)
                    @if let Some(status) = it.status { ", status " (status) } }
                pre { (it.said) }
            }
        }
    }
}

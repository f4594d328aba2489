//! A check's report as one page that needs nothing else: to send to a colleague.

use load::latency::LatencyMs;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::promises::{PromiseVerdict, ThreeValued};
use super::report::{CheckReport, ExampleText, RushRates, VoucherFigures};

/// Nothing on the page may run or be fetched, whatever a target said.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

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
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="content-security-policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                header {
                    p.kicker { "seckill check" }
                    h1 { (report.target) }
                    p { (report.addresses.join(", ")) }
                    p class={ "verdict " (class) } { (report.sentence()) }
                }
                main {
                    section { h2 { "Promises" } ul.promises { @for it in &report.promises { (promise(it)) } } }
                    (figures(report))
                    (vouchers(&report.vouchers))
                    @if !report.examples.is_empty() { (examples(&report.examples)) }
                    @if !report.notes.is_empty() {
                        section { h2 { "Notes" } ul { @for note in &report.notes { li { (note) } } } }
                    }
                }
                footer {
                    p { (report.users) " buyers; a double click is " (report.attempts) " attempts at once; seed "
                        (report.seed) "." }
                }
            }
        }
    };
    markup.into_string()
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
                table {
                    thead { tr { th { "outcome" } th.number { "attempts" } } }
                    tbody { @for (outcome, count) in &report.outcomes {
                        tr { td { (outcome) } td.number { (count) } }
                    } }
                }
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

fn vouchers(vouchers: &[VoucherFigures]) -> Markup {
    let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |it| it.to_string());
    html! {
        section {
            h2 { "Vouchers" }
            div.scroll { table {
                thead { tr {
                    th { "for" } th { "id" } th.number { "stock" } th.number { "told yes" }
                    th.number { "orders" } th.number { "left" }
                } }
                tbody { @for it in vouchers { tr {
                    td { (it.crowd) } td { (it.voucher) } td.number { (number(it.stock)) } td.number { (it.told) }
                    td.number { (number(it.orders)) } td.number { (number(it.remaining)) }
                } } }
            } }
        }
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

//! A check's report as one page that needs nothing else: to send to a colleague. Its reader chooses the language.

use std::time::Duration;

use maud::{Markup, html};
use report::{Document, Scripts};

use super::promises::{FoundText, PromiseVerdict, ThreeValued};
use super::report::{CheckReport, ExampleText};
use super::tables::{answers, figures, vouchers};
use super::words::words;

/// Where `seckill play` shows the rungs of the ladder.
const COURSE: &str = "http://127.0.0.1:8080/lab/course";

/// The page.
#[must_use]
pub fn page(report: &CheckReport) -> String {
    let title = format!("seckill check: {}", report.target);
    let took = humantime::format_duration(Duration::from_secs(report.elapsed_ms.div_ceil(1_000)));
    let body = html! {
        input #zh.choice type="radio" name="language";
        label for="zh" { "中文" }
        input #en.choice type="radio" name="language" checked;
        label for="en" { "English" }
        header {
            p.kicker { "seckill check " (report.version) }
            h1 { (report.target) }
            p { (report.addresses.join(", ")) }
            p.environment { (report.at) ", " (took.to_string()) }
            (banner(report))
        }
        main {
            section {
                h2 { (words("promises").html()) }
                ul.promises { @for it in &report.promises { (promise(it)) } }
            }
            section {
                h2 { (words("not_tried").html()) }
                ul { @for it in &report.not_tried { li { (it.html()) } } }
            }
            section {
                h2 { (words("answers").html()) }
                div.columns { (answers(report).html()) (figures(report).html()) }
            }
            section { h2 { (words("vouchers").html()) } (vouchers(&report.vouchers).html()) }
            @if !report.examples.is_empty() { (examples(&report.examples)) }
            @if !report.notes.is_empty() {
                section {
                    h2 { (words("notes").html()) }
                    ul { @for note in &report.notes { li { (note) } } }
                }
            }
        }
        footer {
            p.en { (report.users) " buyers; a double click is " (report.attempts) " attempts at once; seed "
                (report.seed) "." }
            p.zh lang="zh-CN" { (report.users) " 个买家；连点是同时 " (report.attempts) " 次尝试；种子 "
                (report.seed) "。" }
        }
    };
    // Nothing on the page may run, whatever a target said.
    let style = include_str!("report.css");
    Document { title: &title, style, scripts: Scripts::Forbidden }.page(&body)
}

/// The verdict as sentences.
fn banner(report: &CheckReport) -> Markup {
    let of = |verdict| report.promises.iter().filter(move |it| it.verdict == verdict);
    let (class, says, worst) = match (report.is_broken(), report.holds) {
        (true, _) => ("broken", words("banner_broken"), ThreeValued::Broken),
        (false, true) => ("holds", words("banner_holds"), ThreeValued::Broken),
        (false, false) => ("unknown", words("banner_unknown"), ThreeValued::Unknown),
    };
    html! {
        div class={ "verdict " (class) } {
            p { (says.html()) @for (number, it) in of(worst).enumerate() {
                @if number > 0 { "; " } (words(it.promise.name()).html())
            } }
        }
    }
}

fn promise(it: &PromiseVerdict) -> Markup {
    // Each of these keys has a text of its own: "holds", "broken", "unknown".
    let class = it.verdict.into();
    let rung = words(it.promise.name()).rung.as_ref();
    let rung = rung.filter(|_| it.verdict == ThreeValued::Broken);
    html! {
        li class=(class) {
            p { span.sign { (words(class).html()) } " " b { (words(it.promise.name()).html()) } " "
                code { (it.promise.name()) } }
            @if !it.findings.is_empty() { ul { @for found in &it.findings { (finding(found)) } } }
            @if let Some(rung) = rung {
                p.rung { (words("design").html()) a href={ (COURSE) "/" (rung) } { (rung) } }
            }
        }
    }
}

fn finding(found: &FoundText) -> Markup {
    html! {
        li {
            (found.sentence)
            @if !found.witnesses.is_empty() {
                ul { @for witness in &found.witnesses { li { (witness.text) } } }
            }
        }
    }
}

fn examples(examples: &[ExampleText]) -> Markup {
    html! {
        section {
            h2 { (words("examples").html()) }
            @for it in examples {
                p { b { (it.outcome) } ", " (it.crowd)
                    @if let Some(status) = it.status { ", " (status) } }
                pre { (it.said) }
            }
        }
    }
}

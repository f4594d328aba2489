//! `/board`: what an operator watches a sale on. Its figures are those of `/metrics`, which its script
//! reads once a second.

use maud::{Markup, html};
use serde::Serialize;

use super::form_field::field;
use super::page::HtmlPage;
use super::{board_orders, board_sale};
use crate::http::{Language, TextFile, Texts};

/// The public ones stand in its HTML, all of them are its script's.
static TEXTS: TextFile = TextFile::new(include_str!("board.toml"));

/// What runs on every board.
const MODULES: [&str; 6] = [
    "board.js",
    "board_create.js",
    "board_edit.js",
    "board_line.js",
    "board_orders.js",
    "board_money.js",
];

/// The page.
pub fn page(language: Language) -> HtmlPage<'static, impl Serialize> {
    let texts = TEXTS.of(language);
    let main = html! {
        div.heading {
            h1 { (texts["title"]) }
            p #live.live role="status" {}
        }
        (login(texts))
        div #board hidden {
            (board_sale::sale(texts))
            (lead(texts))
            (figures(texts))
            (plots(texts))
            (board_orders::orders(texts))
            (board_orders::money(texts))
            div.columns {
                (refusals(texts))
                (audit(texts))
                (nodes(texts))
            }
        }
        (board_orders::question(texts))
    };
    HtmlPage {
        language,
        title: texts["title"],
        path: "/board",
        styles: &["vendor/uplot.css", "board.css"],
        libraries: &["vendor/uplot.js"],
        modules: &MODULES,
        needs_scripts: true,
        texts,
        main,
    }
}

fn login(texts: &Texts) -> Markup {
    html! {
        section #login.panel hidden aria-labelledby="login-title" {
            h2 #login-title { (texts["login_title"]) }
            p { (texts["login_about"]) }
            form #login-form novalidate {
                (field("phone", texts["phone"], html! {
                    input #phone name="phone" type="tel" autocomplete="tel" required
                        aria-describedby="phone-error";
                }))
                button.quiet #send-code type="button" { (texts["send_code"]) }
                (field("code", texts["code"], html! {
                    input #code name="code" inputmode="numeric" autocomplete="one-time-code"
                        maxlength="6" aria-describedby="code-error";
                }))
                button.primary type="submit" { (texts["login_button"]) }
            }
            p #login-state.state role="status" {}
        }
    }
}

/// What an operator looks at first: what is left, how fast it sells, whether every promise holds.
fn lead(texts: &Texts) -> Markup {
    html! {
        section.lead-figures aria-label=(texts["sale"]) {
            dl {
                div.figure.large {
                    dt { (texts["stock_left"]) }
                    dd #figure-left { "–" }
                }
                div.figure.large title=(texts["orders_note"]) {
                    dt { (texts["orders_per_s"]) }
                    dd #figure-orders { "–" }
                    dd.peak #peak-orders {}
                }
                div.figure.large title=(texts["audit_about"]) {
                    dt { (texts["verdict"]) }
                    dd #figure-verdict { (texts["not_audited"]) }
                    dd.peak {
                        span #audit-state role="status" {}
                        button.quiet #audit type="button" { (texts["audit_button"]) }
                    }
                }
            }
            figure.panel {
                figcaption { (texts["plot_orders"]) }
                div.plot #plot-orders role="img" aria-label=(texts["plot_orders"]) {}
            }
        }
    }
}

/// The other figures, in one line.
fn figures(texts: &Texts) -> Markup {
    let figures = [
        ("refused", texts["refusals_per_s"], texts["orders_note"]),
        ("p50", texts["p50"], texts["latency_note"]),
        ("p99", texts["p99"], texts["latency_note"]),
        ("in-flight", texts["in_flight"], texts["in_flight_note"]),
        ("queue", texts["queue"], texts["queue_note"]),
        ("batch", texts["batch"], texts["batch_note"]),
        ("postgres", "PostgreSQL", texts["store_note"]),
        ("redis", "Redis", texts["store_note"]),
        ("known-nodes", texts["nodes_known"], texts["nodes_title"]),
        ("strategy", texts["strategy"], texts["strategy_note"]),
    ];
    html! {
        section aria-label=(texts["figures"]) {
            dl.figures {
                @for (id, name, note) in figures {
                    div.figure title=(note) {
                        dt { (name) }
                        dd id={ "figure-" (id) } { "–" }
                        @if id == "refused" { dd.peak #peak-refused {} }
                    }
                }
            }
            p.note #figures-note { (texts["figures_note"]) }
        }
    }
}

fn plots(texts: &Texts) -> Markup {
    let plots = [
        ("refusals", texts["plot_refusals"]),
        ("stock", texts["plot_stock"]),
        ("latency", texts["plot_latency"]),
        ("load", texts["plot_load"]),
    ];
    html! {
        section aria-labelledby="plots-title" {
            h2 #plots-title { (texts["plots"]) }
            div.plots {
                @for (id, name) in plots {
                    figure.panel {
                        figcaption { (name) }
                        div.plot id={ "plot-" (id) } role="img" aria-label=(name) {}
                    }
                }
            }
        }
    }
}

fn refusals(texts: &Texts) -> Markup {
    html! {
        section.panel aria-labelledby="outcomes-title" {
            h2 #outcomes-title { (texts["outcomes"]) }
            table {
                thead {
                    tr {
                        th scope="col" { (texts["outcome"]) }
                        th.number scope="col" { (texts["per_second"]) }
                        th.number scope="col" { (texts["in_all"]) }
                    }
                }
                tbody #outcomes {}
            }
        }
    }
}

fn audit(texts: &Texts) -> Markup {
    html! {
        section.panel aria-labelledby="audit-title" {
            h2 #audit-title { (texts["audit_title"]) }
            p { (texts["audit_about"]) }
            div #audit-verdict {}
        }
    }
}

fn nodes(texts: &Texts) -> Markup {
    html! {
        section.panel aria-labelledby="nodes-title" {
            h2 #nodes-title { (texts["nodes_title"]) }
            table {
                thead {
                    tr {
                        th scope="col" { (texts["address"]) }
                        th scope="col" { (texts["instance"]) }
                        th.number scope="col" { (texts["connections"]) }
                    }
                }
                tbody #nodes {}
            }
        }
    }
}

//! `/board`: what an operator watches a sale on. Its figures are those of `/metrics`, which its script
//! reads once a second.

use maud::{Markup, html};
use serde::Serialize;

use super::login_form::login_form;
use super::page::HtmlPage;
use super::question::question;
use super::{board_orders, board_sale};
use crate::http::{Language, TextFile, Texts};

/// The public ones stand in its HTML, all of them are its script's.
static TEXTS: TextFile = TextFile::new(concat!(
    include_str!("board.toml"),
    include_str!("login_form.toml"),
    include_str!("order_states.toml")
));

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
            (board_orders::orders(texts))
            (board_orders::money(texts))
            div.columns {
                (refusals(texts))
                (audit(texts))
            }
        }
        (question())
    };
    HtmlPage {
        styles: &["vendor/uplot.css", "board.css"],
        libraries: &["vendor/uplot.js"],
        modules: &MODULES,
        main,
        ..HtmlPage::of("/board", language, texts)
    }
}

fn login(texts: &Texts) -> Markup {
    html! {
        section #login.panel hidden aria-labelledby="login-title" {
            h2 #login-title { (texts["login_title"]) }
            p { (texts["login_about"]) }
            (login_form(texts))
        }
    }
}

/// What an operator looks at first: what is left, how fast it sells, whether every promise holds.
fn lead(texts: &Texts) -> Markup {
    html! {
        section.lead-figures aria-label=(texts["sale"]) {
            dl {
                div.figure {
                    dt { (texts["stock_left"]) }
                    dd #figure-left { "–" }
                }
                div.figure title=(texts["orders_note"]) {
                    dt { (texts["orders_per_s"]) }
                    dd #figure-orders { "–" }
                }
                div.figure title=(texts["audit_about"]) {
                    dt { (texts["verdict"]) }
                    dd #figure-verdict { (texts["not_audited"]) }
                    dd.audited {
                        span #audit-state role="status" {}
                        button.quiet #audit type="button" { (texts["audit_button"]) }
                    }
                }
            }
            figure.panel {
                figcaption { (texts["plot_orders"]) }
                div #plot-orders role="img" aria-label=(texts["plot_orders"]) {}
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

//! `/board`: what an operator watches a sale on. Its figures are those of `/metrics`, which its script
//! reads once a second.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get};
use maud::{Markup, html};

use super::board_texts::Board;
use super::page::{HtmlPage, PageFiles, PageLanguage};
use crate::http::crowd_sender::{MAX_ATTEMPTS, MAX_USERS};
use crate::http::{App, Language};

/// What the page offers in this server.
#[derive(Debug, Clone, Copy)]
struct Offers {
    /// The administrator whom nobody had to configure.
    demo_admin: Option<&'static str>,
    /// Whether the server sends crowds.
    crowds: bool,
}

/// The page of this server.
pub(super) fn route(app: &App) -> MethodRouter<App> {
    let offers = Offers { demo_admin: app.demo_admin, crowds: app.crowds.is_some() };
    let files = Arc::new(PageFiles::new(move |language| render(language, offers)));
    get(move |language: PageLanguage, headers: HeaderMap| {
        let files = Arc::clone(&files);
        async move { files.answer(language, &headers).await }
    })
}

fn render(language: Language, offers: Offers) -> String {
    let texts = Board::of(language);
    let main = html! {
        div.heading {
            h1 { (texts.title) }
            p #live.live role="status" {}
        }
        @if offers.demo_admin.is_some() && offers.crowds { (demonstration(texts)) }
        (login(texts, offers))
        div #board hidden {
            (sale(texts))
            (figures(texts))
            (plots(texts))
            div.columns {
                (refusals(texts))
                (audit(texts))
                @if offers.crowds { (crowd(texts)) }
                (nodes(texts))
            }
        }
    };
    let page = HtmlPage {
        language,
        title: texts.title,
        path: "/board",
        styles: &["vendor/uplot.css", "board.css"],
        libraries: &["vendor/uplot.js"],
        module: "board.js",
        texts,
        main,
    };
    page.render()
}

fn demonstration(texts: &Board) -> Markup {
    html! {
        section.panel.demonstration aria-labelledby="demonstration-title" {
            div {
                h2 #demonstration-title { (texts.demo_title) }
                p { (texts.demo_about) }
            }
            button #demo.primary type="button" { (texts.demo_button) }
            p #demo-state.state role="status" {}
        }
    }
}

fn login(texts: &Board, offers: Offers) -> Markup {
    html! {
        section #login.panel hidden aria-labelledby="login-title" {
            h2 #login-title { (texts.login_title) }
            p { (if offers.demo_admin.is_some() { texts.login_demo } else { texts.login_about }) }
            form #login-form novalidate {
                (field("phone", texts.phone, html! {
                    input #phone name="phone" type="tel" autocomplete="tel" required
                        value=[offers.demo_admin] data-demo=[offers.demo_admin]
                        aria-describedby="phone-error";
                }))
                button.quiet #send-code type="button" { (texts.send_code) }
                (field("code", texts.code, html! {
                    input #code name="code" inputmode="numeric" autocomplete="one-time-code"
                        maxlength="6" aria-describedby="code-error";
                }))
                button.primary type="submit" { (texts.login_button) }
            }
            p #login-state.state role="status" {}
        }
    }
}

/// A label, its field, and room for what is wrong with it.
fn field(id: &str, label: &str, input: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (input)
            p.error id={ (id) "-error" } {}
        }
    }
}

fn sale(texts: &Board) -> Markup {
    html! {
        section.panel.sale aria-label=(texts.sale) {
            div.choice {
                (field("voucher", texts.sale, html! {
                    select #voucher aria-describedby="voucher-error" {}
                }))
                p #sale-state.state {}
                button.quiet #logout type="button" { (texts.log_out) }
            }
            details #new-sale {
                summary { (texts.new_sale) }
                form #sale-form novalidate {
                    (field("title", texts.voucher_title, html! {
                        input #title name="title" maxlength="200" required
                            aria-describedby="title-error";
                    }))
                    (field("stock", texts.stock, html! {
                        input #stock name="stock" type="number" min="0" max="2147483647" step="1"
                            required value="100" aria-describedby="stock-error";
                    }))
                    (field("begin", texts.begin, html! {
                        input #begin name="begin" type="datetime-local" step="1"
                            aria-describedby="begin-error";
                    }))
                    (field("end", texts.end, html! {
                        input #end name="end" type="datetime-local" step="1"
                            aria-describedby="end-error";
                    }))
                    button.primary type="submit" { (texts.create) }
                    p #sale-form-state.state role="status" {}
                }
            }
        }
    }
}

fn figures(texts: &Board) -> Markup {
    let figures = [
        ("orders", texts.orders_per_s),
        ("left", texts.stock_left),
        ("refused", texts.refusals_per_s),
        ("p50", texts.p50),
        ("p99", texts.p99),
        ("in-flight", texts.in_flight),
        ("queue", texts.queue),
        ("batch", texts.batch),
        ("postgres", "PostgreSQL"),
        ("redis", "Redis"),
        ("known-nodes", texts.nodes_known),
        ("strategy", texts.strategy),
    ];
    html! {
        section aria-labelledby="figures-title" {
            h2 #figures-title { (texts.figures) }
            dl.figures {
                @for (id, name) in figures {
                    div.figure {
                        dt { (name) }
                        dd id={ "figure-" (id) } { "–" }
                    }
                }
            }
            p.note #figures-note { (texts.figures_note) }
        }
    }
}

fn plots(texts: &Board) -> Markup {
    let plots = [
        ("rates", texts.plot_rates),
        ("latency", texts.plot_latency),
        ("load", texts.plot_load),
        ("stock", texts.plot_stock),
    ];
    html! {
        section aria-labelledby="plots-title" {
            h2 #plots-title { (texts.plots) }
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

fn refusals(texts: &Board) -> Markup {
    html! {
        section.panel aria-labelledby="outcomes-title" {
            h2 #outcomes-title { (texts.outcomes) }
            table {
                thead {
                    tr {
                        th scope="col" { (texts.outcome) }
                        th.number scope="col" { (texts.per_second) }
                        th.number scope="col" { (texts.in_all) }
                    }
                }
                tbody #outcomes {}
            }
        }
    }
}

fn audit(texts: &Board) -> Markup {
    html! {
        section.panel aria-labelledby="audit-title" {
            h2 #audit-title { (texts.audit_title) }
            p { (texts.audit_about) }
            button.quiet #audit type="button" { (texts.audit_button) }
            p #audit-state.state role="status" {}
            div #audit-verdict {}
        }
    }
}

fn crowd(texts: &Board) -> Markup {
    html! {
        section #crowd-card.panel aria-labelledby="crowd-title" {
            h2 #crowd-title { (texts.crowd_title) }
            p { (texts.crowd_about) }
            form #crowd-form novalidate {
                (field("users", texts.users, html! {
                    input #users name="users" type="number" min="1" max=(MAX_USERS) step="1"
                        required value="1000" aria-describedby="users-error";
                }))
                (field("attempts", texts.attempts, html! {
                    input #attempts name="attempts" type="number" min="1" max=(MAX_ATTEMPTS)
                        step="1" required value="5" aria-describedby="attempts-error";
                }))
                button #send-crowd.primary type="submit" { (texts.crowd_button) }
                button.quiet #stop-crowd type="button" disabled { (texts.crowd_stop) }
            }
            progress #crowd-progress max="1" value="0" aria-label=(texts.crowd_progress) hidden {}
            p #crowd-state.state role="status" {}
            div #crowd-verdict {}
        }
    }
}

fn nodes(texts: &Board) -> Markup {
    html! {
        section.panel aria-labelledby="nodes-title" {
            h2 #nodes-title { (texts.nodes_title) }
            table {
                thead {
                    tr {
                        th scope="col" { (texts.address) }
                        th scope="col" { (texts.instance) }
                        th.number scope="col" { (texts.connections) }
                    }
                }
                tbody #nodes {}
            }
        }
    }
}

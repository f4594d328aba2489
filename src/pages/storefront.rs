//! `/`: the vouchers, and buying one.

use maud::{Markup, html};
use serde::Serialize;

use super::login_form::login_form;
use super::page::HtmlPage;
use super::question::question;
use crate::http::{Language, TextFile, Texts};

/// What the page says. `{…}` is filled in by its scripts.
static TEXTS: TextFile = TextFile::new(concat!(
    include_str!("storefront.toml"),
    include_str!("login_form.toml"),
    include_str!("order_states.toml")
));

/// The page.
pub fn page(language: Language) -> HtmlPage<'static, impl Serialize> {
    let texts = TEXTS.of(language);
    HtmlPage {
        modules: &["storefront.js"],
        main: content(texts),
        ..HtmlPage::of("/", language, texts)
    }
}

fn content(texts: &Texts) -> Markup {
    html! {
        div.hero {
            h1 { (texts["title"]) }
            div.account {
                button.quiet #log-in type="button" { (texts["log_in"]) }
                p #user hidden {
                    span.unseen { (texts["logged_in_as"]) " " }
                    span #user-phone {}
                    button.link #log-out type="button" { (texts["log_out"]) }
                }
            }
            div.lead {
                p #account-notice role="status" {}
                p { (texts["lead"]) }
            }
        }
        div.bar {
            nav.tabs aria-label=(texts["title"]) {
                a href="#all" aria-current="page" { (texts["vouchers"]) }
                a href="#orders" { (texts["my_orders"]) }
            }
        }
        div.line {
            p.connection #connection role="status" data-state="connecting" { (texts["connecting"]) }
            // It has its place before there is anything to say: what stands below does not move.
            div role="status" {
                button.quiet #new-sales type="button" { (texts["new_sale"]) }
            }
        }
        section #vouchers-view aria-label=(texts["vouchers"]) {
            ul.cards #vouchers {}
            p.empty #nothing-yet hidden { (texts["nothing_yet"]) }
            // All that may come when it is pressed comes below it: it does not move under a finger.
            p.more { button.quiet #more-vouchers type="button" hidden { (texts["more"]) } }
            ul.cards #older-vouchers {}
            p.empty #nothing-on hidden { (texts["nothing_on"]) }
            details #over hidden {
                summary #over-count {}
                ul.cards #over-vouchers {}
            }
        }
        section #orders-view aria-label=(texts["my_orders"]) hidden {
            div #orders-login {
                p.empty { (texts["log_in_for_orders"]) }
                p.more { button.quiet #orders-log-in type="button" { (texts["log_in"]) } }
            }
            p.empty #no-orders hidden { (texts["no_orders"]) " " a href="#all" { (texts["to_vouchers"]) } }
            p.message #orders-notice role="status" data-kind="bad" {}
            ul.orders #order-list {}
            p.more { button.quiet #more-orders type="button" hidden { (texts["more"]) } }
        }
        dialog #login aria-labelledby="login-title" {
            h2 #login-title { (texts["log_in"]) }
            (login_form(texts))
            button.link #cancel-login type="button" { (texts["cancel"]) }
        }
        (question())
    }
}

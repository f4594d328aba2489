//! The orders of the sale on the board, and money that waits for somebody.

use maud::{Markup, html};
use strum::VariantNames;

use super::form_field::field;
use crate::http::Texts;
use crate::model::OrderStatus;

/// The orders of the sale that is watched.
pub(super) fn orders(texts: &Texts) -> Markup {
    let columns = ["order", "buyer", "order_state", "amount", "placed", "actions"];
    html! {
        section.panel #orders aria-labelledby="orders-title" {
            h2 #orders-title { (texts["orders_title"]) }
            div.choice {
                (field("order-status", texts["order_state"], html! {
                    select #order-status aria-describedby="order-status-error" {
                        option value="" { (texts["all_states"]) }
                        @for state in OrderStatus::VARIANTS {
                            option value=(state) { (texts[&*format!("order_{state}")]) }
                        }
                    }
                }))
                button.quiet #orders-csv type="button" { (texts["csv"]) }
            }
            p #orders-state.state role="status" tabindex="-1" {}
            table.stacked {
                (head(texts, &columns))
                tbody #order-rows {}
            }
            div.choice {
                button.quiet #newer-orders type="button" disabled { (texts["newer"]) }
                button.quiet #older-orders type="button" disabled { (texts["older"]) }
            }
        }
    }
}

/// The head of a table: the key of each column's text.
fn head(texts: &Texts, columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (texts[*column]) } } } } }
}

/// Money that waits to be given back, money that went back twice, and money that belongs to no payment.
pub(super) fn money(texts: &Texts) -> Markup {
    let refunds = ["order", "amount", "reason", "tries", "next_attempt", "last_error"];
    let unmatched = ["transaction", "payment", "amount", "received", "returned", "resolved"];
    let list = |id: &str, title: &str, about: &str, columns: &[&str]| {
        html! {
            h3 { (title) }
            p.note { (about) }
            p.state id={ (id) "-none" } {}
            table.stacked hidden {
                (head(texts, columns))
                tbody id=(id) {}
            }
        }
    };
    html! {
        section.panel #money aria-labelledby="money-title" {
            h2 #money-title { (texts["money_title"]) }
            (list("refunds", texts["refunds_title"], texts["refunds_about"], &refunds))
            (list("unmatched", texts["unmatched_title"], texts["unmatched_about"], &unmatched))
        }
    }
}

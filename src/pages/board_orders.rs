//! The orders of the sale on the board, and money that waits for somebody.

use maud::{Markup, html};

use super::form_field::field;
use crate::http::Texts;

/// The orders of the sale that is watched.
pub(super) fn orders(texts: &Texts) -> Markup {
    let states = [
        ("unpaid", texts["order_unpaid"]),
        ("paid", texts["order_paid"]),
        ("used", texts["order_used"]),
        ("cancelled", texts["order_cancelled"]),
        ("refunding", texts["order_refunding"]),
        ("refunded", texts["order_refunded"]),
    ];
    let columns = [
        texts["order"],
        texts["buyer"],
        texts["order_state"],
        texts["amount"],
        texts["placed"],
        texts["actions"],
    ];
    html! {
        section.panel #orders aria-labelledby="orders-title" {
            h2 #orders-title { (texts["orders_title"]) }
            div.choice {
                (field("order-status", texts["order_state"], html! {
                    select #order-status aria-describedby="order-status-error" {
                        option value="" { (texts["all_states"]) }
                        @for (value, name) in states { option value=(value) { (name) } }
                    }
                }))
                button.quiet #orders-csv type="button" { (texts["csv"]) }
            }
            p #orders-state.state role="status" tabindex="-1" {}
            table.stacked {
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
                tbody #order-rows {}
            }
            div.choice {
                button.quiet #newer-orders type="button" disabled { (texts["newer"]) }
                button.quiet #older-orders type="button" disabled { (texts["older"]) }
            }
        }
    }
}

/// Money that waits to be given back, money that went back twice, and money that belongs to no payment.
pub(super) fn money(texts: &Texts) -> Markup {
    let refunds = [
        texts["order"],
        texts["amount"],
        texts["reason"],
        texts["tries"],
        texts["next_attempt"],
        texts["last_error"],
    ];
    let unmatched = [
        texts["transaction"],
        texts["payment"],
        texts["amount"],
        texts["received"],
        texts["returned"],
        texts["resolved"],
    ];
    let list = |id: &str, title: &str, about: &str, columns: &[&str]| {
        html! {
            h3 { (title) }
            p.note { (about) }
            p.state id={ (id) "-none" } {}
            table.stacked hidden {
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
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

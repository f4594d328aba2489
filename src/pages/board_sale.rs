//! The sale on the board: choosing one, making one, changing it.

use maud::{Markup, html};

use super::form_field::field;
use crate::http::Texts;

/// The sale that is watched, and what can be done with it.
pub(super) fn sale(texts: &Texts) -> Markup {
    html! {
        section.panel.sale aria-label=(texts["sale"]) {
            div.choice {
                (field("voucher", texts["sale"], html! {
                    select #voucher aria-describedby="voucher-error" {}
                }))
                p #sale-state.state {}
                button.quiet #pause type="button" hidden { (texts["pause"]) }
                button.quiet #logout type="button" { (texts["log_out"]) }
            }
            p.state #pause-state role="status" {}
            (line(texts))
            details #edit-sale hidden {
                summary { (texts["edit_sale"]) }
                form #edit-form novalidate {
                    (fields("edit-", texts, [texts["total_stock"], texts["begin_edit"], texts["end_edit"]]))
                    p.note.whole-line { (texts["edit_note"]) }
                    button.primary #save-sale type="submit" { (texts["save"]) }
                    p #edit-state.state role="status" {}
                }
            }
            details #new-sale {
                summary { (texts["new_sale"]) }
                form #sale-form novalidate {
                    (fields("", texts, [texts["stock"], texts["begin"], texts["end"]]))
                    (fairness(texts))
                    button.primary type="submit" { (texts["create"]) }
                    p #sale-form-state.state role="status" {}
                }
            }
        }
    }
}

/// How many wait for the sale that is watched, and the public number of its draw.
fn line(texts: &Texts) -> Markup {
    html! {
        div #line hidden {
            p #line-state.state role="status" {}
            form #number-form novalidate hidden {
                (field("number", texts["number"], html! {
                    input #number name="number" maxlength="200" autocomplete="off" autocapitalize="none" aria-describedby="number-error";
                }))
                button.primary type="submit" { (texts["tell_number"]) }
            }
        }
    }
}

/// The draw and the line, which only a new sale has.
fn fairness(texts: &Texts) -> Markup {
    html! {
        p.note.whole-line { (texts["fairness_about"]) }
        (field("draw", texts["draw"], html! {
            input #draw name="draw" type="datetime-local" step="1" aria-describedby="draw-error";
        }))
        (field("beacon", texts["beacon"], html! {
            input #beacon name="beacon" maxlength="200" aria-describedby="beacon-error";
        }))
        div.field.check {
            input #line-wanted name="line" type="checkbox" aria-describedby="line-wanted-error";
            label for="line-wanted" { (texts["line"]) }
            p.error #line-wanted-error {}
        }
    }
}

/// The fields of a sale, whose ids begin with `prefix`.
fn fields(prefix: &str, texts: &Texts, [stock, begin, end]: [&str; 3]) -> Markup {
    // What an empty field means, of a number, stands in it.
    let text = |name: &str, label: &str, empty: Option<&str>, longest: u32| {
        let id = format!("{prefix}{name}");
        field(
            &id,
            label,
            html! {
                input id=(id) name=(name) maxlength=(longest) placeholder=[empty]
                inputmode=[empty.map(|_| "decimal")]
                    aria-describedby={ (id) "-error" };
            },
        )
    };
    let time = |name: &str, label: &str| {
        let id = format!("{prefix}{name}");
        field(
            &id,
            label,
            html! {
                input id=(id) name=(name) type="datetime-local" step="1"
                    aria-describedby={ (id) "-error" };
            },
        )
    };
    let (stock_id, terms_id) = (format!("{prefix}stock"), format!("{prefix}terms"));
    html! {
        (text("title", texts["voucher_title"], None, 200))
        (text("subtitle", texts["subtitle"], None, 200))
        (field(&stock_id, stock, html! {
            input id=(stock_id) name="stock" type="number" min="0" max="2147483647" step="1"
                required value="100" aria-describedby={ (stock_id) "-error" };
        }))
        (text("price", texts["price"], Some(texts["free"]), 14))
        (text("value", texts["value"], Some("–"), 14))
        (text("pay-within", texts["pay_within"], Some("15"), 14))
        (time("begin", begin))
        (time("end", end))
        div.whole-line {
            (field(&terms_id, texts["terms"], html! {
                textarea id=(terms_id) name="terms" rows="3" maxlength="2000"
                    aria-describedby={ (terms_id) "-error" } {}
            }))
        }
    }
}

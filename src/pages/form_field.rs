//! A field of a form.

use maud::{Markup, html};

/// A label, its field, and room for what is wrong with it.
pub(super) fn field(id: &str, label: &str, input: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (input)
            p.error id={ (id) "-error" } {}
        }
    }
}

//! Rust in colours.

use maud::{Markup, html};

use crate::source_code::tokens;

pub(super) fn highlighted(source: &str) -> Markup {
    html! {
        @for token in tokens(source) {
            @match token.class {
                Some(class) => span.(class) { (token.text) },
                None => (token.text),
            }
        }
    }
}

//! The dialog that asks once more before something is done. A script fills it in.

use maud::{Markup, html};

pub(super) fn question() -> Markup {
    html! {
        dialog #question aria-labelledby="question-title" aria-describedby="question-about" {
            h2 #question-title {}
            p #question-about {}
            // A dialog's form sends nothing: it closes the dialog with the value of the button.
            form method="dialog" {
                button.primary #question-no value="no" {}
                button.quiet #question-yes value="yes" {}
            }
        }
    }
}

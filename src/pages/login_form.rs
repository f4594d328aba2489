//! Logging in, in the shop and on the board: a phone, then the code that was sent to it.

use maud::{Markup, html};

use crate::http::Texts;

/// Both forms, and room for what there is to say. The hint is each page's own.
pub(super) fn login_form(texts: &Texts) -> Markup {
    html! {
        form #phone-form {
            label for="phone" { (texts["phone"]) }
            input #phone type="tel" name="phone" autocomplete="tel" inputmode="tel"
                maxlength="24" required aria-describedby="phone-hint";
            p.hint #phone-hint { (texts["phone_hint"]) }
            button.primary type="submit" { (texts["send_code"]) }
        }
        form #code-form hidden {
            p #sent-to {}
            p.notice #demonstration hidden { (texts["demonstration"]) " " strong #shown-code {} }
            label for="code" { (texts["code"]) }
            input #code name="code" autocomplete="one-time-code" inputmode="numeric"
                maxlength="6" pattern="[0-9]{6}" required;
            button.primary type="submit" { (texts["log_in"]) }
            button.link #other-phone type="button" { (texts["other_phone"]) }
        }
        p.message #login-notice role="alert" data-kind="bad" {}
    }
}

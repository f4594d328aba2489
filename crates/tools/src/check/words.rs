//! What a check's page says in both languages: the texts lie in `words.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::target::{CheckTarget, VoucherSource};

/// A text in both languages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
    /// Of a promise: the rung of the ladder that shows how it is broken.
    #[serde(skip_serializing)]
    pub rung: Option<String>,
}

impl Words {
    /// On a page whose reader chooses the language.
    #[must_use]
    pub fn html(&self) -> Markup {
        html! { span.en { (self.en) } span.zh lang="zh-CN" { (self.zh) } }
    }
}

#[expect(clippy::expect_used, reason = "a test reads the file that is built in")]
static ALL: LazyLock<BTreeMap<String, Words>> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).expect("the words are TOML"));

/// The text with this key.
///
/// # Panics
/// When there is none: the keys are constants.
#[must_use]
pub fn words(key: &str) -> &'static Words {
    &ALL[key]
}

/// What was not tried at this target.
#[must_use]
pub fn not_tried(target: &CheckTarget) -> Vec<&'static Words> {
    let keys = [
        (true, "without_crashes"),
        (true, "without_payments"),
        (target.nodes.len() == 1, "with_one_node"),
        (matches!(target.vouchers, VoucherSource::Fixed(_)), "with_one_voucher"),
        (target.closed.is_empty(), "without_closed"),
        (target.per_user.is_none(), "without_limit"),
    ];
    keys.into_iter().filter(|(is_so, _)| *is_so).map(|(_, key)| words(key)).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::path::Path;

    use load::verdict::Promise;

    use super::*;

    #[test]
    fn every_promise_has_its_words_and_a_design_of_the_ladder() {
        let ladder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ladder");
        for promise in Promise::ALL {
            let words = words(promise.name());
            assert_eq!(words.en, promise.meaning());
            let Some(rung) = &words.rung else { continue };
            assert!(ladder.join(format!("{rung}.md")).exists(), "{rung}");
        }
        assert_eq!(ALL.values().filter(|words| words.rung.is_some()).count(), 7);
    }

    #[test]
    fn every_text_is_used_and_every_key_that_is_used_has_a_text() {
        let sources = [include_str!("html.rs"), include_str!("words.rs")].concat();
        let promises: Vec<&str> = Promise::ALL.iter().map(|promise| promise.name()).collect();
        for key in ALL.keys().filter(|key| !promises.contains(&key.as_str())) {
            assert!(sources.contains(&format!("\"{key}\"")), "{key}");
        }
        let keys = include_str!("html.rs").split("words(\"").skip(1);
        for key in keys.map(|rest| rest.split('"').next().unwrap()) {
            assert!(ALL.contains_key(key), "{key}");
        }
    }
}

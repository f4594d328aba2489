//! A text with placeholders, such as `/vouchers/{voucher}/orders`.

use std::sync::Arc;

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// `{token}`: the buyer's token.
    Token,
    /// `{user}`: the buyer's name.
    User,
    /// `{voucher}`: the voucher that is bought.
    Voucher,
}

impl Placeholder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Token, Self::User, Self::Voucher];

    /// The word between the braces.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::User => "user",
            Self::Voucher => "voucher",
        }
    }
}

/// A word in braces that is no placeholder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no placeholder {{{0}}}")]
pub struct UnknownPlaceholder(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Arc<str>),
    Placeholder(Placeholder),
}

/// A text with placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template(Vec<Part>);

impl Template {
    /// Reads `text`. A brace that is not around one lower-case word is text, so that JSON can be written
    /// as it is.
    ///
    /// # Errors
    /// When a word in braces is no placeholder.
    pub fn parse(text: &str) -> Result<Self, UnknownPlaceholder> {
        let (mut parts, mut rest, mut literal) = (Vec::new(), text, String::new());
        while let Some(open) = rest.find('{') {
            literal += &rest[..open];
            let Some(word) = word_in_braces(&rest[open..]) else {
                literal.push('{');
                rest = &rest[open + 1..];
                continue;
            };
            let placeholder = Placeholder::ALL.into_iter().find(|it| it.word() == word);
            let placeholder = placeholder.ok_or_else(|| UnknownPlaceholder(word.to_owned()))?;
            parts.push(Part::Text(std::mem::take(&mut literal).into()));
            parts.push(Part::Placeholder(placeholder));
            rest = &rest[open + word.len() + 2..];
        }
        literal += rest;
        parts.push(Part::Text(literal.into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self(parts))
    }

    /// Whether `placeholder` is in it.
    #[must_use]
    pub fn has(&self, placeholder: Placeholder) -> bool {
        self.0.contains(&Part::Placeholder(placeholder))
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with `voucher` in place of `{voucher}`.
    #[must_use]
    pub fn for_voucher(&self, voucher: &str) -> Self {
        let filled = |part: &Part| match part {
            Part::Placeholder(Placeholder::Voucher) => Part::Text(voucher.into()),
            other => other.clone(),
        };
        Self(self.0.iter().map(filled).collect())
    }

    /// The text of one buyer. A `{voucher}` that was not filled in stays as it is.
    #[must_use]
    pub fn render(&self, user: &str, token: &str) -> String {
        let mut text = String::new();
        for part in &self.0 {
            text += match part {
                Part::Text(literal) => literal,
                Part::Placeholder(Placeholder::Token) => token,
                Part::Placeholder(Placeholder::User) => user,
                Part::Placeholder(Placeholder::Voucher) => "{voucher}",
            };
        }
        text
    }
}

/// The lower-case word in the braces with which `text` begins.
fn word_in_braces(text: &str) -> Option<&str> {
    let (word, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    is_word.then_some(word)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_json_stays_json() {
        for (text, filled) in [
            ("", ""),
            ("/a/{voucher}?u={user}", "/a/7?u=u1"),
            ("{token}", "t1"),
            ("Bearer {token}{user}", "Bearer t1u1"),
            (r#"{"voucherId": {voucher}, "n": {"x": 1}}"#, r#"{"voucherId": 7, "n": {"x": 1}}"#),
            ("{ token } {Token} {}", "{ token } {Token} {}"),
            ("{", "{"),
        ] {
            let template = Template::parse(text).unwrap().for_voucher("7");
            assert_eq!(template.render("u1", "t1"), filled);
        }
        let template = Template::parse("{user}").unwrap();
        assert!(template.has(Placeholder::User) && !template.has(Placeholder::Token));
    }

    #[test]
    fn what_was_filled_in_is_not_read_again() {
        let template = Template::parse("{voucher}").unwrap().for_voucher("{token}");
        assert_eq!(template.render("u", "t"), "{token}");
    }

    #[test]
    fn a_word_that_is_no_placeholder_is_refused() {
        let refusal = Template::parse("/a/{vouchr}").unwrap_err();
        assert_eq!(refusal.to_string(), "there is no placeholder {vouchr}");
    }
}

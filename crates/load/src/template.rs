//! A text with placeholders, such as `/vouchers/{voucher}/orders`.

use std::sync::Arc;

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placeholder {
    /// `{token}`: the buyer's token.
    Token,
    /// `{user}`: the buyer's name.
    User,
    /// `{voucher}`: the voucher that is bought.
    Voucher,
    /// What was taken from an earlier answer under this name.
    Taken(Arc<str>),
}

impl Placeholder {
    /// Those that need no earlier answer.
    pub const ALWAYS: [Self; 3] = [Self::Token, Self::User, Self::Voucher];

    /// The word between the braces.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Token => "token",
            Self::User => "user",
            Self::Voucher => "voucher",
            Self::Taken(name) => name,
        }
    }
}

/// What was taken from earlier answers, by name.
pub type Taken = Vec<(Arc<str>, String)>;

/// What the placeholders of one attempt stand for.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// In place of `{user}`.
    pub user: &'a str,
    /// In place of `{token}`.
    pub token: &'a str,
    /// In place of the other names.
    pub taken: &'a [(Arc<str>, String)],
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
pub struct Template(Arc<[Part]>);

/// A text without any.
impl From<&str> for Template {
    fn from(text: &str) -> Self {
        Self([Part::Text(text.into())].into())
    }
}

impl Template {
    /// Reads `text`. A brace that is not around one lower-case word is text, so that JSON can be written
    /// as it is. `taken` are the names of what earlier answers give.
    ///
    /// # Errors
    /// When a word in braces is no placeholder.
    pub fn parse(text: &str, taken: &[Arc<str>]) -> Result<Self, UnknownPlaceholder> {
        let (mut parts, mut rest, mut literal) = (Vec::new(), text, String::new());
        while let Some(open) = rest.find('{') {
            literal += &rest[..open];
            let Some(word) = word_in_braces(&rest[open..]) else {
                literal.push('{');
                rest = &rest[open + 1..];
                continue;
            };
            let taken = taken.iter().cloned().map(Placeholder::Taken);
            let placeholder =
                Placeholder::ALWAYS.into_iter().chain(taken).find(|it| it.word() == word);
            let placeholder = placeholder.ok_or_else(|| UnknownPlaceholder(word.to_owned()))?;
            parts.push(Part::Text(std::mem::take(&mut literal).into()));
            parts.push(Part::Placeholder(placeholder));
            rest = &rest[open + word.len() + 2..];
        }
        literal += rest;
        parts.push(Part::Text(literal.into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self(parts.into()))
    }

    /// Whether `placeholder` is in it.
    #[must_use]
    pub fn has(&self, placeholder: &Placeholder) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Placeholder(it) if it == placeholder))
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

    /// The text of one attempt. A `{voucher}` that was not filled in stays as it is, and what was not taken is
    /// nothing.
    #[must_use]
    pub fn render(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for part in &*self.0 {
            text += match part {
                Part::Text(literal) => literal,
                Part::Placeholder(Placeholder::Token) => values.token,
                Part::Placeholder(Placeholder::User) => values.user,
                Part::Placeholder(Placeholder::Voucher) => "{voucher}",
                Part::Placeholder(Placeholder::Taken(name)) => {
                    let found = values.taken.iter().find(|(taken, _)| taken == name);
                    found.map_or("", |(_, value)| value)
                }
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
        let taken = vec![(Arc::from("code"), "c1".to_owned())];
        let values = Values { user: "u1", token: "t1", taken: &taken };
        for (text, filled) in [
            ("", ""),
            ("/a/{voucher}?u={user}", "/a/7?u=u1"),
            ("{token}", "t1"),
            ("/{code}?{other}", "/c1?"),
            ("Bearer {token}{user}", "Bearer t1u1"),
            (r#"{"voucherId": {voucher}, "n": {"x": 1}}"#, r#"{"voucherId": 7, "n": {"x": 1}}"#),
            ("{ token } {Token} {}", "{ token } {Token} {}"),
            ("{", "{"),
        ] {
            let names = ["code".into(), "other".into()];
            let template = Template::parse(text, &names).unwrap().for_voucher("7");
            assert_eq!(template.render(&values), filled);
        }
        let template = Template::parse("{user}", &[]).unwrap();
        // What was filled in is not read again.
        let voucher = Template::parse("{voucher}", &[]).unwrap().for_voucher("{token}");
        assert_eq!(voucher.render(&values), "{token}");
        assert!(template.has(&Placeholder::User) && !template.has(&Placeholder::Token));
    }

    #[test]
    fn a_word_that_is_no_placeholder_is_refused() {
        let refusal = Template::parse("/a/{vouchr}", &[]).unwrap_err();
        assert_eq!(refusal.to_string(), "there is no placeholder {vouchr}");
    }
}

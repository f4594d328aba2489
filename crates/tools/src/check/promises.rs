//! What a check says of a promise: one of three verdicts.

use load::verdict::Promise;
use serde::Serialize;

use super::evidence::Witness;

/// What one crowd's voucher says of a promise.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    /// It was kept.
    Holds,
    /// It was not: how, and what shows it.
    Broken(String, Vec<Witness>),
    /// The file gives nothing to judge by: what it would have to give.
    Unknown(String),
    /// This crowd did not put it to the test: why not.
    Untested(String),
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ThreeValued {
    /// The promise was kept.
    Holds,
    /// It was broken.
    Broken,
    /// Nobody can say.
    Unknown,
}

impl ThreeValued {
    /// The word in a table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "BROKEN",
            Self::Unknown => "unknown",
        }
    }
}

/// The verdict on a promise, over all crowds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromiseVerdict {
    /// The promise.
    pub promise: Promise,
    /// The verdict.
    pub verdict: ThreeValued,
    /// The witness, or what is missing, a sentence each.
    pub sentences: Vec<String>,
    /// The same with the witnesses as values.
    pub findings: Vec<FoundText>,
}

/// What is said of a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundText {
    /// How it was broken, in which crowd; or what is missing.
    pub sentence: String,
    /// What shows it.
    pub witnesses: Vec<Witness>,
}

impl From<String> for FoundText {
    fn from(sentence: String) -> Self {
        Self { sentence, witnesses: Vec::new() }
    }
}

/// So many crowds are told of that broke a promise.
const TOLD_CROWDS: usize = 3;

impl PromiseVerdict {
    /// Of the rulings of all crowds, each with its name.
    #[must_use]
    pub fn over(promise: Promise, rulings: Vec<(&str, Ruling)>) -> Self {
        let (mut broken, mut unknown, mut untested) = (Vec::new(), Vec::new(), Vec::new());
        let mut holds = false;
        for (name, ruling) in rulings {
            match ruling {
                Ruling::Holds => holds = true,
                Ruling::Broken(sentence, witnesses) => {
                    let sentence = format!("{name}: {sentence}");
                    broken.push(FoundText { sentence, witnesses });
                }
                Ruling::Unknown(why) => unknown.push(why.into()),
                Ruling::Untested(why) => untested.push(why.into()),
            }
        }
        let (verdict, mut findings) = if !broken.is_empty() {
            (ThreeValued::Broken, told(broken))
        } else if !unknown.is_empty() {
            (ThreeValued::Unknown, unknown)
        } else if holds {
            (ThreeValued::Holds, Vec::new())
        } else {
            (ThreeValued::Unknown, untested)
        };
        findings.dedup();
        let sentences = findings.iter().flat_map(|found| {
            let witnesses = found.witnesses.iter().map(|witness| &witness.text);
            std::iter::once(&found.sentence).chain(witnesses).cloned()
        });
        Self { promise, verdict, sentences: sentences.collect(), findings }
    }
}

/// Those that are told of.
fn told(mut broken: Vec<FoundText>) -> Vec<FoundText> {
    let more = broken.len().saturating_sub(TOLD_CROWDS);
    broken.truncate(TOLD_CROWDS);
    if more > 0 {
        broken.push(format!("and the same with {more} more vouchers").into());
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(rulings: Vec<Ruling>) -> (ThreeValued, Vec<String>) {
        let rulings = rulings.into_iter().map(|ruling| ("a", ruling)).collect();
        let verdict = PromiseVerdict::over(Promise::NoOversell, rulings);
        (verdict.verdict, verdict.sentences)
    }

    #[test]
    fn broken_is_stronger_than_unknown_and_unknown_than_holds() {
        let broken = || Ruling::Broken("b".to_owned(), Vec::new());
        let unknown = || Ruling::Unknown("u".to_owned());
        let untested = || Ruling::Untested("t".to_owned());
        let text = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let found = over(vec![Ruling::Holds, unknown(), broken()]);
        assert_eq!(found, (ThreeValued::Broken, text(&["a: b"])));
        assert_eq!(over(vec![Ruling::Holds, unknown()]), (ThreeValued::Unknown, text(&["u"])));
        assert_eq!(over(vec![untested(), Ruling::Holds]), (ThreeValued::Holds, Vec::new()));
        assert_eq!(over(vec![untested(), untested()]), (ThreeValued::Unknown, text(&["t"])));
        let many = over(vec![broken(), broken(), broken(), broken()]).1;
        assert_eq!(many.last().map(String::as_str), Some("and the same with 1 more vouchers"));
    }
}

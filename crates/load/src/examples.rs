//! Examples of the answers that no rule knows: enough to mend the rules, or the server.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;

use super::outcome::{CodeAndOrder, NO_ANSWER, NOT_SENT};

/// So much of a body is kept, in bytes.
pub const EXAMPLE_BYTES: usize = 200;
/// So many outcomes have an example.
const OUTCOMES: usize = 16;

/// An answer that is not known, or why none came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerExample {
    /// The outcome under which it is counted.
    pub outcome: String,
    /// Index into [`RushPlan::requests`](super::rush::RushPlan::requests).
    pub request: usize,
    /// The status, where an answer came.
    pub status: Option<u16>,
    /// The first [`EXAMPLE_BYTES`] of the body, or why there is no answer.
    pub said: String,
}

/// The first example of each outcome of one rush.
#[derive(Debug, Default)]
pub(super) struct Examples(Mutex<BTreeMap<String, AnswerExample>>);

impl Examples {
    /// A rush that panics in one task may go on in the others.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, AnswerExample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        request: usize,
        outcome: &str,
        status: Option<u16>,
        said: impl FnOnce() -> String,
    ) {
        let mut examples = self.lock();
        if !examples.contains_key(outcome) && examples.len() < OUTCOMES {
            let outcome = outcome.to_owned();
            let example = AnswerExample { outcome: outcome.clone(), request, status, said: said() };
            examples.insert(outcome, example);
        }
    }

    /// An answer came that is not known. The `token` in it is as good as the user, and is left out.
    pub(super) fn unknown(
        &self,
        request: usize,
        outcome: &str,
        status: StatusCode,
        body: Option<&[u8]>,
        token: Option<&str>,
    ) {
        let said = || match body {
            Some(body) => beginning(body, token),
            None => "a body that is too long to read".to_owned(),
        };
        self.add(request, outcome, Some(status.as_u16()), said);
    }

    /// None came.
    pub(super) fn no_answer(&self, request: usize, why: &str) -> CodeAndOrder {
        self.add(request, NO_ANSWER, None, || why.to_owned());
        (NO_ANSWER.into(), None)
    }

    /// The request was not sent.
    pub(super) fn not_connected(&self, request: usize, why: &io::Error) {
        self.add(request, NOT_SENT, None, || why.to_string());
    }

    /// All of them, by outcome.
    pub(super) fn take(&self) -> Vec<AnswerExample> {
        std::mem::take(&mut *self.lock()).into_values().collect()
    }
}

/// The first [`EXAMPLE_BYTES`] of a body, without the token.
pub(super) fn beginning(body: &[u8], token: Option<&str>) -> String {
    let body = String::from_utf8_lossy(body);
    match token.filter(|token| !token.is_empty()) {
        Some(token) => shorten(&body.replace(token, "{token}")).to_owned(),
        None => shorten(&body).to_owned(),
    }
}

fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXAMPLE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_left_out_of_an_example_even_where_the_example_ends() {
        let body = |before: usize| format!("{}secret.", "x".repeat(before));
        let of = |before| beginning(body(before).as_bytes(), Some("secret"));
        assert_eq!(of(0), "{token}.");
        for before in [EXAMPLE_BYTES - 7, EXAMPLE_BYTES - 6, EXAMPLE_BYTES - 1, EXAMPLE_BYTES] {
            assert_eq!(of(before).len(), EXAMPLE_BYTES, "{before}");
            assert!(!of(before).contains('s'), "{before}");
        }
        assert_eq!(beginning("库".repeat(67).as_bytes(), None).len(), 198);
        assert_eq!(beginning(b"a7", Some("")), "a7");
    }
}

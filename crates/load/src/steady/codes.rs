//! The outcomes seen so far, by number.
//!
//! The load shares its machine with the server it measures: a refusal that came before, byte for
//! byte, is not parsed again.

use std::borrow::Cow;

use hyper::StatusCode;

use crate::outcome::{self, NO_ANSWER, NOT_SENT, ORDERED};

/// A code by its number.
pub(super) type CodeIndex = usize;

/// [`ORDERED`] by its number.
pub(super) const ORDERED_INDEX: CodeIndex = 0;
/// [`NO_ANSWER`] by its number.
pub(super) const NO_ANSWER_INDEX: CodeIndex = 1;
/// [`NOT_SENT`] by its number.
pub(super) const NOT_SENT_INDEX: CodeIndex = 2;

/// The most codes that are told apart: each has histograms of its own.
const MAX_CODES: usize = 64;

/// The name of all further ones.
const OTHER: &str = "http_other";

/// Answers that are remembered. Refusals of one kind are all the same, byte for byte.
const MAX_REMEMBERED: usize = 16;

/// The outcomes seen so far, numbered, because a number is quicker to count by.
pub(super) struct Codes {
    names: Vec<Cow<'static, str>>,
    remembered: Vec<Remembered>,
}

struct Remembered {
    status: u16,
    is_problem: bool,
    body: Box<[u8]>,
    code: CodeIndex,
}

impl Default for Codes {
    fn default() -> Self {
        let names = [ORDERED, NO_ANSWER, NOT_SENT].map(Cow::Borrowed).into();
        Self { names, remembered: Vec::new() }
    }
}

impl Codes {
    /// The names, each at the place that its number says.
    pub(super) fn names(&self) -> &[Cow<'static, str>] {
        &self.names
    }

    /// The number of an answer: as [`outcome::read`] has it, and by its status alone when its body is
    /// too long to be read. Not even a 201 is an order then.
    pub(super) fn of(&mut self, status: u16, is_problem: bool, body: Option<&[u8]>) -> CodeIndex {
        let Some(body) = body else { return self.number(format!("http_{status}").into()) };
        if status == StatusCode::CREATED {
            return ORDERED_INDEX;
        }
        let same = |known: &&Remembered| {
            known.status == status && known.is_problem == is_problem && *known.body == *body
        };
        if let Some(known) = self.remembered.iter().find(same) {
            return known.code;
        }
        let name = match StatusCode::from_u16(status) {
            Ok(status) => outcome::read(status, is_problem, body).0,
            Err(_) => format!("http_{status}").into(),
        };
        let code = self.number(name);
        if self.remembered.len() < MAX_REMEMBERED {
            self.remembered.push(Remembered { status, is_problem, body: body.into(), code });
        }
        code
    }

    fn number(&mut self, name: Cow<'static, str>) -> CodeIndex {
        if let Some(known) = self.names.iter().position(|known| *known == name) {
            return known;
        }
        if self.names.len() > MAX_CODES {
            // The last one added was it.
            return MAX_CODES;
        }
        let is_last = self.names.len() == MAX_CODES;
        self.names.push(if is_last { OTHER.into() } else { name });
        self.names.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_as_the_rush_counts_it_however_often_it_comes() {
        let mut codes = Codes::default();
        for _ in 0..2 {
            for (status, is_problem, body, code) in [
                (201, false, Some(&b"{}"[..]), "ordered"),
                (201, false, Some(b""), "ordered"),
                (201, false, None, "http_201"),
                (409, true, Some(b"{\"code\":\"sold_out\"}"), "sold_out"),
                (409, false, Some(b"{\"code\":\"sold_out\"}"), "http_409"),
                (503, true, Some(b"{\"code\":\"unavailable\"}"), "unavailable"),
                (503, true, None, "http_503"),
                (0, true, Some(b"{\"code\":\"sold_out\"}"), "http_0"),
            ] {
                let index = codes.of(status, is_problem, body);
                assert_eq!(codes.names()[index], code);
            }
        }
        assert_eq!(codes.names()[..3], ["ordered", "no_answer", "not_sent"]);
    }

    #[test]
    fn a_server_that_makes_up_codes_does_not_fill_the_memory() {
        let mut codes = Codes::default();
        for number in 0..1_000 {
            let body = format!("{{\"code\":\"c{number}\"}}");
            codes.of(409, true, Some(body.as_bytes()));
        }
        assert_eq!(codes.names().len(), MAX_CODES + 1);
        assert_eq!(codes.names()[MAX_CODES], "http_other");
        let known = codes.of(409, true, Some(b"{\"code\":\"c60\"}"));
        assert_eq!(codes.names()[known], "c60");
        assert_eq!(codes.remembered.len(), MAX_REMEMBERED);
    }
}

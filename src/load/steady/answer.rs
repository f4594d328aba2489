//! Where an answer in a buffer ends, and what it is counted as.
//!
//! The load shares its machine with the server it measures, so what is read of an answer is
//! as little as its outcome takes.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use httparse::{Response, Status};
use hyper::StatusCode;

use crate::load::connection::{MAX_BODY_BYTES, is_problem};
use crate::load::outcome::{self, NO_ANSWER, NOT_SENT, ORDERED};

/// The most headers an answer may have.
const MAX_HEADERS: usize = 64;

/// The longest head of an answer, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What a buffer holds that begins with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Not all of it yet.
    Partial,
    /// All of it.
    Whole {
        /// Its status.
        status: u16,
        /// Whether it says that it is `application/problem+json`.
        is_problem: bool,
        /// Its body; `None` when it is longer than is read, or its length is not given.
        body: Option<&'a [u8]>,
        /// Whether another request may be sent over its connection.
        is_kept: bool,
    },
    /// What is no HTTP/1 answer, or has a head without end.
    Garbage,
}

/// Looks for an answer at the beginning of `bytes`.
///
/// Only bodies with a `content-length` are read. Another one (`transfer-encoding: chunked`, or
/// one that ends with its connection) counts as there as soon as its head is; its connection
/// cannot be kept.
pub(super) fn read(bytes: &[u8]) -> Answer<'_> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let head_bytes = match parsed {
        Ok(Status::Complete(head_bytes)) => head_bytes,
        Ok(Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Answer::Partial,
        Ok(Status::Partial) | Err(_) => return Answer::Garbage,
    };
    let (mut length, mut has_problem) = (None, false);
    let mut is_kept = response.version == Some(1);
    for header in response.headers.iter() {
        // Most headers are told apart by the length of the name alone.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                length = str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
            }
            12 if header.name.eq_ignore_ascii_case("content-type") => {
                has_problem = is_problem(header.value);
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                is_kept &= !header.value.eq_ignore_ascii_case(b"close");
            }
            _ => {}
        }
    }
    let status = response.code.unwrap_or_default();
    let Some(length) = length.filter(|&length: &usize| length <= MAX_BODY_BYTES) else {
        return Answer::Whole { status, is_problem: false, body: None, is_kept: false };
    };
    let end = head_bytes + length;
    match bytes.get(head_bytes..end) {
        None => Answer::Partial,
        // What comes behind the answer was not asked for.
        Some(body) => Answer::Whole {
            status,
            is_problem: has_problem,
            body: Some(body),
            is_kept: is_kept && bytes.len() == end,
        },
    }
}

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

/// What all further ones are counted as.
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

    /// What an answer is counted as: as [`outcome::read`] has it, and by its status alone when
    /// its body has not been read. Not even a 201 is an order then, because nobody knows
    /// whether the answer was whole.
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

    const SOLD_OUT: &[u8] = b"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\n\
        CONTENT-LENGTH: 19\r\n\r\n{\"code\":\"sold_out\"}";

    #[test]
    fn an_answer_ends_with_its_last_byte_and_not_before() {
        for end in 0..SOLD_OUT.len() {
            assert_eq!(read(&SOLD_OUT[..end]), Answer::Partial, "{end} bytes");
        }
        let body = Some(&b"{\"code\":\"sold_out\"}"[..]);
        let whole = Answer::Whole { status: 409, is_problem: true, body, is_kept: true };
        assert_eq!(read(SOLD_OUT), whole);
    }

    #[test]
    fn a_connection_is_kept_only_when_both_sides_know_where_the_next_answer_begins() {
        let is_kept = |answer: &[u8]| match read(answer) {
            Answer::Whole { is_kept, .. } => Some(is_kept),
            _ => None,
        };
        let ends: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: Close\r\n\r\n",
            b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
        ];
        for answer in ends {
            assert_eq!(is_kept(answer), Some(false), "{}", answer.escape_ascii());
        }
        assert_eq!(is_kept(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"), Some(true));
    }

    #[test]
    fn a_head_without_end_is_no_answer() {
        let mut endless = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
        endless.resize(MAX_HEAD_BYTES - 1, b'x');
        assert_eq!(read(&endless), Answer::Partial);
        endless.push(b'x');
        assert_eq!(read(&endless), Answer::Garbage);
        assert_eq!(read(b"220 smtp.example.org\r\n"), Answer::Garbage);
    }

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

//! Where in an answer a value stands: for the next request, for the id of an order, for a token.

use std::borrow::Cow;

use hyper::header::{CONTENT_TYPE, HeaderName, SET_COOKIE};
use hyper::{HeaderMap, StatusCode};
use serde_json::Value;

/// The longest value that is taken from an answer, in bytes: a signed token.
pub const MAX_VALUE_BYTES: usize = 8 * 1024;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// In which part of the answer.
    pub part: AnswerPart,
    /// The value begins behind this text.
    pub after: Option<String>,
    /// The value ends before this text, or with the part.
    pub until: Option<String>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// The text or whole number at this JSON pointer (RFC 6901). The empty pointer is the whole body, also where
    /// it is no JSON.
    Pointer(String),
    /// A header.
    Header(HeaderName),
    /// The cookie of this name, where the answer sets it.
    Cookie(String),
}

/// An answer whose body is parsed when somebody asks for it, and only once.
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    bytes: Option<&'a [u8]>,
    json: Option<Option<Value>>,
}

impl<'a> Answer<'a> {
    /// `body` is `None` where it was too long to read.
    #[must_use]
    pub fn new(status: StatusCode, headers: &'a HeaderMap, body: Option<&'a [u8]>) -> Self {
        Self { status, headers, bytes: body.map(without_mark), json: None }
    }

    /// The body; nothing where it was too long.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes.unwrap_or_default()
    }

    /// Whether it says that it is `application/problem+json` (RFC 9457), with or without parameters.
    pub(super) fn is_problem(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
        let essence = content_type.unwrap_or_default().split(|&byte| byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        essence.eq_ignore_ascii_case(b"application/problem+json")
    }

    pub(super) fn at(&mut self, pointer: &str) -> Option<&Value> {
        let bytes = self.bytes;
        let parse = || bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
        self.json.get_or_insert_with(parse).as_ref()?.pointer(pointer)
    }

    pub(super) fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes())
    }

    pub(super) fn header(&self, name: &HeaderName) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn cookie(&self, name: &str) -> Option<&'a str> {
        let mut set = self.headers.get_all(SET_COOKIE).iter().filter_map(|it| it.to_str().ok());
        set.find_map(|cookie| {
            let (found, rest) = cookie.split_once('=')?;
            (found.trim() == name).then(|| rest.split(';').next().unwrap_or_default().trim())
        })
    }
}

impl Place {
    /// At a JSON pointer.
    #[must_use]
    pub fn pointer(pointer: &str) -> Self {
        Self { part: AnswerPart::Pointer(pointer.to_owned()), after: None, until: None }
    }

    /// The value that stands there: not empty, and not longer than [`MAX_VALUE_BYTES`].
    #[must_use]
    pub fn find(&self, answer: &mut Answer<'_>) -> Option<String> {
        let whole = match &self.part {
            AnswerPart::Pointer(pointer) => match answer.at(pointer).map(id) {
                None if pointer.is_empty() => answer.text().trim().to_owned(),
                found => found??,
            },
            AnswerPart::Header(name) => answer.header(name)?.to_owned(),
            AnswerPart::Cookie(name) => answer.cookie(name)?.to_owned(),
        };
        let mut value = whole.as_str();
        if let Some(after) = &self.after {
            value = value.split_once(after.as_str())?.1;
        }
        if let Some((before, _)) = self.until.as_ref().and_then(|it| value.split_once(it.as_str()))
        {
            value = before;
        }
        (1..=MAX_VALUE_BYTES).contains(&value.len()).then(|| value.to_owned())
    }
}

/// An id: a text, or a whole number to its last digit.
#[must_use]
pub fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if (1..=MAX_VALUE_BYTES).contains(&text.len()) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

/// Text as some editors and servers write it begins with a mark of its encoding.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderValue, LOCATION};
    use serde_json::json;

    use super::*;

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static("http://h/pay?code=c-1&x=2"));
        headers.append(SET_COOKIE, HeaderValue::from_static("a=1; Path=/"));
        headers.append(SET_COOKIE, HeaderValue::from_static("sid=s=1;HttpOnly"));
        headers
    }

    fn find(place: &Place, body: &str) -> Option<String> {
        place.find(&mut Answer::new(StatusCode::OK, &headers(), Some(body.as_bytes())))
    }

    #[test]
    fn a_value_is_taken_from_the_body_a_header_or_a_cookie() {
        let header = || AnswerPart::Header(LOCATION);
        let text = |text: &str| Some(text.to_owned());
        let cut = |after, until| Place { part: header(), after, until };
        let cookie = |name: &str| Place {
            part: AnswerPart::Cookie(name.to_owned()),
            after: None,
            until: None,
        };
        for (place, body, found) in [
            (
                Place::pointer("/a/0"),
                "\u{feff}{\"a\":[18446744073709551615]}",
                text("18446744073709551615"),
            ),
            (Place::pointer("/a"), "{\"a\":\"\"}", None),
            (Place::pointer("/a"), "{\"a\":{}}", None),
            (Place::pointer(""), " c-1\n", text("c-1")),
            (Place::pointer(""), "\"c-1\"", text("c-1")),
            (Place::pointer(""), "{}", None),
            (Place::pointer(""), "", None),
            (cut(None, None), "", text("http://h/pay?code=c-1&x=2")),
            (cut(text("code="), text("&")), "", text("c-1")),
            (cut(text("x="), text("&")), "", text("2")),
            (cut(text("y="), None), "", None),
            (cookie("sid"), "", text("s=1")),
            (cookie("id"), "", None),
        ] {
            assert_eq!(find(&place, body), found, "{place:?} {body:?}");
        }
        for (length, is_taken) in [(MAX_VALUE_BYTES, true), (MAX_VALUE_BYTES + 1, false)] {
            assert_eq!(find(&Place::pointer(""), &"x".repeat(length)).is_some(), is_taken);
        }
    }

    #[test]
    fn an_id_is_a_text_or_a_whole_number() {
        for (value, expected) in [
            (json!("x"), Some("x")),
            (json!(-1), Some("-1")),
            (json!(1.5), None),
            (json!(1e300), None),
            (json!(""), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(id(&value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn problem_json_is_known_by_its_media_type_alone() {
        for (said, is_problem) in [
            ("application/problem+json", true),
            ("Application/Problem+JSON ; charset=utf-8", true),
            ("application/json", false),
            ("application/problem+jsonx", false),
            ("", false),
        ] {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(said))].into_iter().collect();
            let answer = Answer::new(StatusCode::OK, &headers, None);
            assert_eq!(answer.is_problem(), is_problem, "{said}");
        }
    }
}

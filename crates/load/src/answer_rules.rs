//! Rules by which the answers of any server are told apart: an ordered list, of which the first that fits
//! gives the outcome.

use std::sync::Arc;

use hyper::header::HeaderName;
use serde_json::Value;

use super::outcome::{self, CodeAndOrder};
use super::place::{Answer, Place};

/// The longest id of an order, in bytes. What is longer is none.
const MAX_ORDER_BYTES: usize = 256;

/// One rule. All its conditions must be met.
#[derive(Debug, Clone)]
pub struct AnswerRule {
    /// The outcome of an answer that fits: a constant of [`outcome`].
    pub outcome: &'static str,
    /// The statuses that fit; empty: any.
    pub statuses: Vec<u16>,
    /// Where in the JSON body the test looks (RFC 6901).
    pub pointer: Option<String>,
    /// The header that the test looks at. Neither: it looks at the body as text.
    pub header: Option<HeaderName>,
    /// What must be there.
    pub test: AnswerTest,
    /// Where the order's id is.
    pub order: Option<Place>,
}

/// What a rule looks for.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerTest {
    /// Nothing: the status is enough.
    Anything,
    /// One of these values.
    OneOf(Vec<Value>),
    /// A text with one of these in it.
    Contains(Vec<String>),
    /// Whether there is a value that is not null.
    Present(bool),
}

/// How the answers of a server are read.
#[derive(Debug, Clone)]
pub enum AnswerReader {
    /// 201, 202, and problem documents whose `code` is the outcome: see [`outcome`].
    ProblemDocuments,
    /// By rules, in their order.
    Rules(Arc<[AnswerRule]>),
}

impl AnswerReader {
    /// The outcome of an answer, and its order. The second value says whether the answer is one that is known.
    #[must_use]
    pub fn read(&self, answer: &mut Answer<'_>) -> (CodeAndOrder, bool) {
        match (self, self.rule(answer)) {
            (Self::ProblemDocuments, _) => outcome::read(answer),
            (Self::Rules(_), None) => ((outcome::of_status(answer.status), None), false),
            (Self::Rules(rules), Some(rule)) => {
                let AnswerRule { outcome, order, .. } = &rules[rule];
                let order = order.as_ref().and_then(|place| place.find(answer));
                let order = order.filter(|order| order.len() <= MAX_ORDER_BYTES);
                (((*outcome).into(), order), true)
            }
        }
    }

    /// The index of the rule that decides.
    #[must_use]
    pub fn rule(&self, answer: &mut Answer<'_>) -> Option<usize> {
        let Self::Rules(rules) = self else { return None };
        rules.iter().position(|rule| rule.fits(answer))
    }
}

impl AnswerRule {
    fn fits(&self, answer: &mut Answer<'_>) -> bool {
        if !self.statuses.is_empty() && !self.statuses.contains(&answer.status.as_u16()) {
            return false;
        }
        match (&self.test, &self.pointer, &self.header) {
            (AnswerTest::Anything, ..) => true,
            (test, _, Some(name)) => test.fits(answer.header(name).map(Value::from).as_ref()),
            (AnswerTest::Contains(texts), None, None) => {
                let body = answer.text();
                texts.iter().any(|text| body.contains(text.as_str()))
            }
            (test, pointer, None) => test.fits(answer.at(pointer.as_deref().unwrap_or_default())),
        }
    }
}

impl AnswerTest {
    fn fits(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(values) => value.is_some_and(|value| values.contains(value)),
            Self::Contains(texts) => value
                .and_then(Value::as_str)
                .is_some_and(|value| texts.iter().any(|text| value.contains(text.as_str()))),
            Self::Present(present) => value.is_some_and(|value| !value.is_null()) == *present,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use hyper::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn rule(outcome: &'static str, pointer: Option<&str>, test: AnswerTest) -> AnswerRule {
        let pointer = pointer.map(str::to_owned);
        let order = Some(Place::pointer("/data"));
        AnswerRule { outcome, statuses: Vec::new(), pointer, header: None, test, order }
    }

    /// The rules of the course application.
    fn reader() -> AnswerReader {
        let one = |value: Value| AnswerTest::OneOf(vec![value]);
        let contains = |text: &str| AnswerTest::Contains(vec![text.to_owned()]);
        AnswerReader::Rules(Arc::new([
            AnswerRule {
                statuses: vec![503, 429],
                ..rule(outcome::UNAVAILABLE, None, AnswerTest::Anything)
            },
            rule(outcome::ORDERED, Some("/success"), one(json!(true))),
            rule(outcome::SOLD_OUT, Some("/errorMsg"), contains("库存不足")),
            rule(outcome::ALREADY_BOUGHT, Some("/code"), one(json!(4))),
            rule(outcome::ORDER_IN_PROGRESS, None, contains("please wait")),
            rule(outcome::SALE_ENDED, Some("/ended"), AnswerTest::Present(true)),
            AnswerRule {
                header: Some(hyper::header::LOCATION),
                ..rule(outcome::REFUSED, None, contains("/sorry"))
            },
        ]))
    }

    fn read(status: u16, body: &str) -> (String, Option<String>, bool) {
        read_with(status, &HeaderMap::new(), Some(body.as_bytes()))
    }

    fn read_with(
        status: u16,
        headers: &HeaderMap,
        body: Option<&[u8]>,
    ) -> (String, Option<String>, bool) {
        let status = StatusCode::from_u16(status).unwrap();
        let ((code, order), known) = reader().read(&mut Answer::new(status, headers, body));
        (code.into_owned(), order, known)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let big = u64::MAX;
        let yes = format!(r#"{{"success":true,"data":{big}}}"#);
        assert_eq!(read(200, &yes), ("ordered".into(), Some(big.to_string()), true));
        assert_eq!(read(503, &yes).0, "unavailable");
        let text = r#"{"success":true,"data":"a-1"}"#;
        assert_eq!(read(200, text).1.as_deref(), Some("a-1"));
        assert_eq!(read(200, r#"{"success":false,"errorMsg":"库存不足！"}"#).0, "sold_out");
        assert_eq!(read(200, r#"{"code":4}"#).0, "already_bought");
        assert_eq!(read(200, "please wait a little").0, "order_in_progress");
        assert_eq!(read(200, r#"{"ended":false}"#).0, "sale_ended");
    }

    #[test]
    fn an_answer_that_fits_no_rule_is_counted_by_its_status_and_is_not_known() {
        for body in ["", "{", "<html>", r#"{"success":"true"}"#, r#"{"ended":null}"#, "[1]"] {
            assert_eq!(read(200, body), ("http_200".into(), None, false), "{body}");
        }
        assert_eq!(read(302, "").0, "http_302");
        let none = HeaderMap::new();
        assert_eq!(read_with(200, &none, None), ("http_200".into(), None, false));
        let headers = |to: &'static str| {
            [(hyper::header::LOCATION, hyper::header::HeaderValue::from_static(to))]
                .into_iter()
                .collect()
        };
        assert_eq!(read_with(302, &headers("http://h/sorry"), None).0, "refused");
        assert_eq!(read_with(302, &headers("/pay"), None).0, "http_302");
    }

    #[test]
    fn an_order_may_have_no_id_and_one_without_end_is_none() {
        assert_eq!(read(200, r#"{"success":true}"#), ("ordered".into(), None, true));
        for (length, is_id) in [(MAX_ORDER_BYTES, true), (MAX_ORDER_BYTES + 1, false)] {
            let body = format!(r#"{{"success":true,"data":"{}"}}"#, "x".repeat(length));
            assert_eq!(read(200, &body).1.is_some(), is_id, "{length}");
        }
    }
}

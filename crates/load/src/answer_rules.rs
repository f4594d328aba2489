//! Rules by which the answers of any server are told apart: an ordered list, of which the first that fits
//! gives the outcome.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use super::outcome::{self, CodeAndOrder};

/// One rule. All its conditions must be met.
#[derive(Debug, Clone)]
pub struct AnswerRule {
    /// The outcome of an answer that fits: a constant of [`outcome`].
    pub outcome: &'static str,
    /// The statuses that fit; empty: any.
    pub statuses: Vec<u16>,
    /// Where in the JSON body the test looks (RFC 6901). `None`: at the body as text.
    pub pointer: Option<String>,
    /// What must be there.
    pub test: AnswerTest,
    /// Where in the JSON body the order's id is.
    pub order: Option<String>,
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

/// A body that is parsed when the first rule asks for it, and only once.
struct LazyBody<'a> {
    bytes: Option<&'a [u8]>,
    json: Option<Option<Value>>,
}

impl LazyBody<'_> {
    fn at(&mut self, pointer: &str) -> Option<&Value> {
        let bytes = self.bytes;
        let parse = || bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
        self.json.get_or_insert_with(parse).as_ref()?.pointer(pointer)
    }

    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes.unwrap_or_default())
    }
}

impl AnswerReader {
    /// The outcome of an answer, and its order. `body` is `None` where it was too long to read. The second
    /// value says whether the answer is one that is known.
    pub(super) fn read(
        &self,
        status: StatusCode,
        is_problem: bool,
        body: Option<&[u8]>,
    ) -> (CodeAndOrder, bool) {
        let Self::Rules(rules) = self else {
            return outcome::read(status, is_problem, body.unwrap_or_default());
        };
        let mut body = LazyBody { bytes: body, json: None };
        match rules.iter().find(|rule| rule.fits(status, &mut body)) {
            Some(rule) => {
                let order = rule.order.as_deref().and_then(|pointer| body.at(pointer));
                ((rule.outcome.into(), order.and_then(id)), true)
            }
            None => ((outcome::of_status(status), None), false),
        }
    }
}

impl AnswerRule {
    fn fits(&self, status: StatusCode, body: &mut LazyBody<'_>) -> bool {
        if !self.statuses.is_empty() && !self.statuses.contains(&status.as_u16()) {
            return false;
        }
        match (&self.test, self.pointer.as_deref()) {
            (AnswerTest::Anything, _) => true,
            (AnswerTest::Contains(texts), None) => {
                let body = body.text();
                texts.iter().any(|text| body.contains(text.as_str()))
            }
            (test, pointer) => test.fits(body.at(pointer.unwrap_or_default())),
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

/// An id: a text, or a whole number to its last digit.
#[must_use]
pub fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(outcome: &'static str, pointer: Option<&str>, test: AnswerTest) -> AnswerRule {
        let pointer = pointer.map(str::to_owned);
        let order = Some("/data".to_owned());
        AnswerRule { outcome, statuses: Vec::new(), pointer, test, order }
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
        ]))
    }

    fn read(status: u16, body: &str) -> (String, Option<String>, bool) {
        let status = StatusCode::from_u16(status).unwrap();
        let ((code, order), known) = reader().read(status, false, Some(body.as_bytes()));
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
        let too_long = reader().read(StatusCode::OK, false, None);
        assert_eq!(too_long, (("http_200".into(), None), false));
    }

    #[test]
    fn an_id_is_a_text_or_a_whole_number_and_an_order_may_have_none() {
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
        assert_eq!(read(200, r#"{"success":true}"#), ("ordered".into(), None, true));
    }
}

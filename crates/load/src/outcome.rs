//! What became of a request, in one word.
//!
//! Of the server's own API: [`ORDERED`] for a 201; [`ACCEPTED`] for a 202; the `code` of any
//! `application/problem+json` (RFC 9457). Of another server what its [rules](super::answer_rules) say. In
//! both: `http_<status>` for an answer that is not known; [`NO_ANSWER`]; [`NOT_SENT`].

use std::borrow::Cow;

use hyper::StatusCode;
use serde::Deserialize;

use super::place::Answer;

/// The outcome of a request that was answered with 201.
pub const ORDERED: &str = "ordered";

/// The outcome of a request that was answered with 202: the server decides later.
pub const ACCEPTED: &str = "accepted";

/// The outcome of a request that may have reached the server, and whose answer never came. Whether
/// it had an effect is **unknown**.
pub const NO_ANSWER: &str = "no_answer";

/// The outcome of a request that never left: its node could not be reached, or the time of the rush was
/// up. It certainly had no effect.
pub const NOT_SENT: &str = "not_sent";

/// The code of a refusal for want of stock.
pub const SOLD_OUT: &str = "sold_out";

/// The code of a refusal because the buyer holds an order: another attempt was served.
pub const ALREADY_BOUGHT: &str = "already_bought";

/// The code of a refusal because another attempt of the same buyer is under way.
pub const ORDER_IN_PROGRESS: &str = "order_in_progress";

/// The code of a refusal before the sale.
pub const SALE_NOT_STARTED: &str = "sale_not_started";

/// The code of a refusal after the sale.
pub const SALE_ENDED: &str = "sale_ended";

/// The code of a server that cannot say now. The buyer may have an order all the same.
pub const UNAVAILABLE: &str = "unavailable";

/// The code of a refusal that says nothing of the stock: a limit of the rate, a captcha.
pub const REFUSED: &str = "refused";

/// The longest `code` of a problem document that is counted under its own name, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// An outcome's code and the order.
pub type CodeAndOrder = (Cow<'static, str>, Option<String>);

/// The outcome of an answer that is not known.
pub(super) fn of_status(status: StatusCode) -> Cow<'static, str> {
    format!("http_{}", status.as_u16()).into()
}

/// The status of an answer that is not known; `None` of any other outcome.
#[must_use]
pub fn unknown_status(outcome: &str) -> Option<u16> {
    outcome.strip_prefix("http_")?.parse().ok()
}

/// Reads the outcome from an answer, and whether it is a known one.
pub(super) fn read(answer: &Answer<'_>) -> (CodeAndOrder, bool) {
    let (status, body) = (answer.status, answer.bytes());
    #[derive(Deserialize)]
    struct OrderIdBody {
        order_id: String,
    }
    #[derive(Deserialize)]
    struct ProblemBody {
        code: String,
    }
    if status == StatusCode::CREATED {
        let ordered: Option<OrderIdBody> = serde_json::from_slice(body).ok();
        return ((ORDERED.into(), ordered.map(|ordered| ordered.order_id)), true);
    }
    if status == StatusCode::ACCEPTED {
        return ((ACCEPTED.into(), None), true);
    }
    let problem =
        if answer.is_problem() { serde_json::from_slice::<ProblemBody>(body).ok() } else { None };
    match problem {
        Some(problem) if is_code(&problem.code) => ((problem.code.into(), None), true),
        _ => ((of_status(status), None), false),
    }
}

/// Whether a server's code may be counted under its own name: a short word that means nothing else
/// here. A server must not be able to claim an order by a refusal.
fn is_code(code: &str) -> bool {
    (1..=MAX_CODE_BYTES).contains(&code.len())
        && code.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        && ![ORDERED, ACCEPTED, NO_ANSWER, NOT_SENT].contains(&code)
}

#[cfg(test)]
mod tests {
    use hyper::header::{CONTENT_TYPE, HeaderValue};

    use super::*;

    fn read(status: u16, is_problem: bool, body: &str) -> (String, Option<String>) {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let kind = is_problem.then_some("application/problem+json");
        let kind = kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind)));
        let headers = kind.into_iter().collect();
        let answer = Answer::new(status, &headers, Some(body.as_bytes()));
        let ((code, order_id), _) = super::read(&answer);
        (code.into_owned(), order_id)
    }

    #[test]
    fn a_201_is_an_order_a_problem_is_its_code_and_any_other_answer_its_status() {
        let order = r#"{"order_id":"123456789012345678","voucher_id":"1"}"#;
        for (status, is_problem, body, outcome, id) in [
            (201, false, order, "ordered", Some("123456789012345678")),
            // An id that is no string is none.
            (201, false, r#"{"order_id":1}"#, "ordered", None),
            (201, false, "", "ordered", None),
            (409, true, r#"{"code":"sold_out"}"#, "sold_out", None),
            (200, false, r#"{"code":"sold_out"}"#, "http_200", None),
            (502, false, "<html>", "http_502", None),
            (409, true, "{}", "http_409", None),
            (409, true, "not json", "http_409", None),
        ] {
            let expected = (outcome.to_owned(), id.map(str::to_owned));
            assert_eq!(read(status, is_problem, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_code_cannot_pass_itself_off_as_another_outcome() {
        for code in ["ordered", "no_answer", "not_sent", "", "Sold Out", &"x".repeat(65)] {
            let body = format!(r#"{{"code":"{code}"}}"#);
            assert_eq!(read(409, true, &body).0, "http_409", "{code}");
        }
    }
}

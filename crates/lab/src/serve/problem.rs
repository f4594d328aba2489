//! Answers that are no success: problems of the production API, and four that only the lab has.

use std::borrow::Cow;

use ladder::{Answer, RungError};
use seckill::http::ApiError;
use seckill::http::problem::{Code, ProblemKind};
use seckill::store::StoreError;

pub(super) static RUNG_NOT_FOUND: ProblemKind = ProblemKind {
    status: 404,
    member: None,
    code: "rung_not_found",
    english_title: "There is no such rung",
    chinese_title: "没有这一级",
};

pub(super) static ORDER_FAILED: ProblemKind = ProblemKind {
    status: 409,
    member: None,
    code: "order_failed",
    english_title: "The order could not be carried out",
    chinese_title: "订单未能完成",
};

pub(super) static REFUSED: ProblemKind = ProblemKind {
    status: 429,
    member: None,
    code: "refused",
    english_title: "You are not let in now",
    chinese_title: "现在没有放行",
};

pub(super) static NO_PURCHASE: ProblemKind = ProblemKind {
    status: 404,
    member: None,
    code: "no_purchase",
    english_title: "There is no order of this user",
    chinese_title: "该用户没有订单",
};

/// Cannot be answered now, and why.
pub(super) fn unavailable(why: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError::unavailable().detail(why)
}

/// The id of the order that a rung's answer names, or nothing while that is not known; the refusal
/// where it is one.
pub(super) fn order_of(answer: Answer) -> Result<Option<i64>, ApiError> {
    let refusal = match answer {
        Answer::Ordered(order) => return Ok(Some(order)),
        Answer::Accepted => return Ok(None),
        Answer::SoldOut => Code::SoldOut.kind(),
        Answer::AlreadyBought => Code::AlreadyBought.kind(),
        Answer::InProgress => Code::OrderInProgress.kind(),
        Answer::GivenUp => &ORDER_FAILED,
        Answer::Refused => &REFUSED,
        // The purchase of production does not enter; what is told is the same.
        Answer::Entered => Code::DrawOpen.kind(),
        Answer::InLine => Code::LineOpen.kind(),
    };
    Err(ApiError::new(refusal))
}

/// Why a rung came to no answer.
pub(super) fn of_rung(error: &RungError) -> ApiError {
    match error {
        // What it lacks is the lab's to say; that it lost its lock is what it teaches.
        RungError::Lacks(_) | RungError::LockLost => unavailable(error.to_string()),
        _ => ApiError::unavailable(),
    }
}

/// What the lab's own look at the database came to.
pub(super) fn of_database(error: sqlx::Error) -> ApiError {
    StoreError::from(error).into()
}

//! The rules of a file, as the crate `load` reads answers by.

use load::answer_rules::{AnswerRule, AnswerTest};
use load::outcome;
use program::ConfigError;
use serde_json::Value;

use super::file::{AnswerTable, Meaning};
use super::read::SourceText;
use super::values::Located;

/// The outcome that a meaning has.
#[must_use]
pub const fn outcome(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Ordered => outcome::ORDERED,
        Meaning::Accepted => outcome::ACCEPTED,
        Meaning::SoldOut => outcome::SOLD_OUT,
        Meaning::AlreadyBought => outcome::ALREADY_BOUGHT,
        Meaning::OrderInProgress => outcome::ORDER_IN_PROGRESS,
        Meaning::SaleNotStarted => outcome::SALE_NOT_STARTED,
        Meaning::SaleEnded => outcome::SALE_ENDED,
        Meaning::Unavailable => outcome::UNAVAILABLE,
        Meaning::Refused => outcome::REFUSED,
        Meaning::Cancelled => "cancelled",
    }
}

/// Whether a meaning is the end of an attempt that made an order, or will.
#[must_use]
pub const fn is_yes(meaning: Meaning) -> bool {
    matches!(meaning, Meaning::Ordered | Meaning::Accepted)
}

/// The rules in their order.
///
/// # Errors
/// When one of them has no condition, or two that exclude each other.
pub fn reader(
    tables: &[&Located<AnswerTable>],
    source: &SourceText,
) -> Result<Vec<AnswerRule>, ConfigError> {
    tables.iter().map(|table| rule(table, source)).collect()
}

fn rule(table: &Located<AnswerTable>, source: &SourceText) -> Result<AnswerRule, ConfigError> {
    let wrong = |why: String| source.wrong(table.at, why);
    let AnswerTable { is, status, pointer, header, equals, one_of, contains, present, order } =
        &table.value;
    if let Some(pointer) = pointer.as_ref().filter(|it| !it.is_empty() && !it.starts_with('/')) {
        return Err(wrong(format!("{pointer:?} is no JSON pointer: it begins with a slash")));
    }
    if pointer.is_some() && header.is_some() {
        return Err(wrong("a rule looks at one of pointer and header".to_owned()));
    }
    let name = header.as_ref().map(|name| name.parse());
    let name = name.transpose().map_err(|_| wrong(format!("{header:?} is no name of a header")))?;
    let is_placed = pointer.is_some() || header.is_some();
    let tests = [
        equals.clone().map(|value| AnswerTest::OneOf(vec![value])),
        one_of.clone().map(AnswerTest::OneOf),
        contains.clone().map(|texts| AnswerTest::Contains(texts.0)),
        present.map(AnswerTest::Present),
    ];
    let mut tests = tests.into_iter().flatten();
    let test = tests.next();
    if tests.next().is_some() {
        let why = "a rule has one of equals, one_of, contains and present";
        return Err(wrong(why.to_owned()));
    }
    let needs_pointer = !matches!(test, None | Some(AnswerTest::Contains(_)));
    if needs_pointer && !is_placed {
        return Err(wrong("equals, one_of and present need a pointer or a header".to_owned()));
    }
    if is_placed && test.is_none() {
        let why =
            "a pointer needs one of equals, one_of, contains and present, and so does a header";
        return Err(wrong(why.to_owned()));
    }
    let is_empty = match &test {
        Some(AnswerTest::OneOf(values)) => values.is_empty(),
        Some(AnswerTest::Contains(texts)) => texts.is_empty() || texts.contains(&String::new()),
        _ => status.as_ref().is_some_and(|status| status.0.is_empty()),
    };
    if is_empty {
        return Err(wrong(
            "a rule compares with nothing: a list or a text in it is empty".to_owned(),
        ));
    }
    let statuses = status.as_ref().map_or_else(Vec::new, |status| status.0.clone());
    if let Some(status) = statuses.iter().find(|status| !(100..=999).contains(*status)) {
        return Err(wrong(format!("{status} is no HTTP status")));
    }
    if statuses.is_empty() && test.is_none() {
        return Err(wrong("a rule needs a status, a pointer or contains".to_owned()));
    }
    if let Some(AnswerTest::OneOf(values)) = &test
        && !values.iter().all(is_scalar)
    {
        return Err(wrong("a value is compared that is no text, number or boolean".to_owned()));
    }
    Ok(AnswerRule {
        outcome: outcome(*is),
        statuses,
        pointer: pointer.clone(),
        header: name,
        test: test.unwrap_or(AnswerTest::Anything),
        order: order.as_ref().map(|order| order.0.clone()),
    })
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

//! The rules of a file, as the crate `load` reads answers by.

use load::answer_rules::{AnswerRule, AnswerTest};
use load::outcome;
use program::ConfigError;
use serde_json::Value;

use super::file::{AnswerTable, Located, Meaning};
use super::read::SourceText;

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
    }
}

/// The rules in their order.
///
/// # Errors
/// When one of them has no condition, or two that exclude each other.
pub fn reader(
    tables: &[Located<AnswerTable>],
    source: &SourceText,
) -> Result<Vec<AnswerRule>, ConfigError> {
    tables.iter().map(|table| rule(table, source)).collect()
}

fn rule(table: &Located<AnswerTable>, source: &SourceText) -> Result<AnswerRule, ConfigError> {
    let wrong = |why: String| source.wrong(table.at, why);
    let AnswerTable { is, status, pointer, equals, one_of, contains, present, order } =
        &table.value;
    for pointer in [pointer, order].into_iter().flatten() {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let why = format!("{pointer:?} is no JSON pointer: it begins with a slash");
            return Err(wrong(why));
        }
    }
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
    if needs_pointer && pointer.is_none() {
        return Err(wrong("equals, one_of and present need a pointer".to_owned()));
    }
    if pointer.is_some() && test.is_none() {
        let why = "a pointer needs one of equals, one_of, contains and present";
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
        test: test.unwrap_or(AnswerTest::Anything),
        order: order.clone(),
    })
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

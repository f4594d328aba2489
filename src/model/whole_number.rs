//! Whole numbers in JSON, however they are written: `100.0` is an integer to JSON Schema.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// 2^53: up to here a number of 64 bits with a point is exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// An integer that fits in `T`.
pub fn whole_number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let whole = match (number.as_i64(), number.as_f64()) {
        (Some(number), _) => Some(number),
        // Beyond, a number with a point does not tell neighbours apart.
        (None, Some(number)) if number.fract() == 0.0 && number.abs() <= MAX_EXACT => {
            Some(number as i64)
        }
        _ => None,
    };
    let bits = 8 * size_of::<T>();
    let whole = whole.and_then(|number| T::try_from(number).ok());
    whole.ok_or_else(|| D::Error::custom(format!("{number} is not an integer of {bits} bits")))
}

/// The same where there may be none.
pub fn maybe_whole_number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "T: TryFrom<i64>"))]
    struct Whole<T>(#[serde(deserialize_with = "whole_number")] T);
    Ok(Option::<Whole<T>>::deserialize(deserializer)?.map(|Whole(number)| number))
}

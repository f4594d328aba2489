//! Values as the API's description shows them: with all that the server checks.

use serde_json::json;
use strum::VariantNames;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use super::order_csv::CsvReader;
use super::voucher_terms::{MAX_AMOUNT, MAX_PAY_WITHIN_S, UNSEEN};
use super::{Code, EntryStatus, OrderId, OrderStatus, SaleStatus, UnmatchedId, UserId, VoucherId};

/// A type that is only a name for a schema.
macro_rules! named {
    ($type:ident, $name:literal, $schema:expr) => {
        #[doc = $name]
        #[allow(missing_debug_implementations)]
        pub struct $type;
        described!($type, $name, $schema);
    };
}

/// The schema of a type.
macro_rules! described {
    ($type:ty, $name:literal, $schema:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }
        impl ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}

fn value(of: Type, description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(of)).description(Some(description))
}

fn text(pattern: &str, example: &str, description: &str) -> ObjectBuilder {
    value(Type::String, description).pattern(Some(pattern)).examples([example])
}

fn word(words: impl IntoIterator<Item = &'static str>, description: &str) -> ObjectBuilder {
    value(Type::String, description).enum_values(Some(words))
}

named!(Id, "Id", {
    let description = "A positive number below 2^63 in decimal digits: too large for a JavaScript \
        number. One number has one spelling, without leading zeros.";
    text(&id_pattern(), "661897216000000001", description)
});

described!(UserId, "Id", Id::schema());
described!(VoucherId, "Id", Id::schema());
described!(OrderId, "Id", Id::schema());
described!(UnmatchedId, "Id", Id::schema());

/// 1 to [`i64::MAX`]. Among numbers with as many digits a number is smaller when it begins as the
/// largest does and goes on with a smaller digit.
fn id_pattern() -> String {
    let largest = i64::MAX.to_string();
    let shorter = format!("[1-9][0-9]{{0,{}}}", largest.len() - 2);
    let smaller = largest.bytes().enumerate().filter_map(|(at, digit)| {
        let lowest = if at == 0 { b'1' } else { b'0' };
        let rest = largest.len() - at - 1;
        let range = format!("[{}-{}]", char::from(lowest), char::from(digit - 1));
        (digit > lowest).then(|| format!("{}{range}[0-9]{{{rest}}}", &largest[..at]))
    });
    let all: Vec<String> = [shorter].into_iter().chain(smaller).chain([largest.clone()]).collect();
    format!("^(?:{})$", all.join("|"))
}

named!(PageSize, "PageSize", {
    let size = value(Type::Integer, "How many at most.").minimum(Some(1)).maximum(Some(100));
    size.default(Some(json!(20)))
});

named!(Phone, "Phone", {
    let description = "Eleven digits of mainland China, or a plus sign and 7 to 15 digits (E.164).";
    text(r"^(?:1[3-9][0-9]{9}|\+[0-9]{7,15})$", "13800138000", description)
});

named!(LoginCode, "LoginCode", text("^[0-9]{6}$", "123456", "Six digits."));

/// White space, as Rust has it; `\s` means something else in each language.
fn white() -> Vec<(char, char)> {
    ('\0'..='\u{ffff}').filter(|c| c.is_whitespace()).map(|c| (c, c)).collect()
}

/// A class of a regular expression: none of these characters, those beyond U+FFFF left out.
fn none_of(ranges: &[(char, char)]) -> String {
    // The server refuses those, too. But JavaScript without the flag `u` has no range of them, and no spelling with five
    // digits is every language's.
    let ranges = ranges.iter().filter(|&&(_, last)| last <= '\u{ffff}');
    let spelled = |c: char| format!("\\u{:04x}", u32::from(c));
    let ranges = ranges.map(|&(first, last)| match first == last {
        true => spelled(first),
        false => format!("{}-{}", spelled(first), spelled(last)),
    });
    format!("[^{}]", ranges.collect::<String>())
}

named!(Title, "Title", {
    // Not white space alone.
    let (seen, inked) = (none_of(&UNSEEN), none_of(&[UNSEEN.to_vec(), white()].concat()));
    let description = "The name of the voucher: not white space alone, no control, zero-width or direction-changing \
        character.";
    let title = text(&format!("^{seen}*{inked}{seen}*$"), "100 yuan for 80", description);
    title.min_length(Some(1)).max_length(Some(200))
});

named!(Subtitle, "Subtitle", {
    value(Type::String, "A second line: no control, zero-width or direction-changing character.")
        .max_length(Some(200))
        .pattern(Some(format!("^{}*$", none_of(&UNSEEN))))
});

named!(Terms, "Terms", {
    value(Type::String, "The conditions: no control character but line breaks and tabs.")
        .max_length(Some(2000))
        .pattern(Some(r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$"))
});

named!(Amount, "Amount", {
    let amount = value(Type::Integer, "In the currency's smallest unit.").minimum(Some(0));
    // Without a format, generated clients in Go and Java take 32 bits.
    let amount = amount.format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    amount.maximum(Some(MAX_AMOUNT)).examples([8000])
});

named!(PayWithin, "PayWithin", {
    let seconds = value(Type::Integer, "Seconds, at most 30 days.").minimum(Some(1));
    seconds.maximum(Some(MAX_PAY_WITHIN_S)).examples([900])
});

named!(SaleInstant, "SaleInstant", {
    let description = "An instant in the years 1970 to 9999 (UTC); what is below a microsecond is \
        cut off.";
    text("^(?:19[7-9][0-9]|[2-9][0-9]{3})-", "2026-11-11T00:00:00Z", description)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
});

described!(SaleStatus, "SaleStatus", {
    word(SaleStatus::VARIANTS.iter().copied(), "Where the sale stands.")
});

described!(EntryStatus, "EntryStatus", {
    word(EntryStatus::VARIANTS.iter().copied(), "Where the entry stands.")
});

described!(OrderStatus, "OrderStatus", {
    word(OrderStatus::VARIANTS.iter().copied(), "Where the order stands.")
});

named!(StoreStatus, "StoreStatus", {
    let words = ["ok", "unavailable", "refused"];
    word(
        words,
        "Whether the store answers. `refused`: it takes no such login, and the log says which server says so.",
    )
});

described!(CsvReader, "CsvReader", { word(["spreadsheet"], "Who reads the CSV.") });

named!(ProblemCode, "ProblemCode", {
    // No client should ever see `internal_error`: nothing that is sent and no store that is away
    // leads there.
    let codes = Code::ALL.into_iter().filter(|code| *code != Code::Internal);
    word(codes.map(Code::as_str), "For programs; never changes.")
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::voucher_terms::is_unseen;

    /// A character at the beginning of `class`, and what stands behind it.
    fn first_of(class: &str) -> Option<(char, &str)> {
        let (digits, rest) = class.strip_prefix("\\u")?.split_at_checked(4)?;
        Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, rest))
    }

    fn ranges_of(mut class: &str) -> Vec<(char, char)> {
        let mut ranges = Vec::new();
        while let Some((first, rest)) = first_of(class) {
            let last = rest.strip_prefix('-').and_then(first_of);
            let (last, rest) = last.unwrap_or((first, rest));
            ranges.push((first, last));
            class = rest;
        }
        assert_eq!(class, "", "it is not spelled with four digits");
        ranges
    }

    #[test]
    fn the_description_lets_a_text_have_what_the_server_takes() {
        let pattern = |schema| json!(schema)["pattern"].as_str().map(str::to_owned);
        let (seen, inked) = (none_of(&UNSEEN), none_of(&[UNSEEN.to_vec(), white()].concat()));
        assert_eq!(pattern(Subtitle::schema()), Some(format!("^{seen}*$")));
        assert_eq!(pattern(Title::schema()), Some(format!("^{seen}*{inked}{seen}*$")));
        let has = |class: &str| {
            let ranges = ranges_of(class.trim_start_matches("[^").trim_end_matches(']'));
            move |c| !ranges.iter().any(|(first, last)| (*first..=*last).contains(&c))
        };
        let (seen, inked) = (has(&seen), has(&inked));
        for c in (0..=0xffff).filter_map(char::from_u32) {
            assert_eq!(seen(c), !is_unseen(c), "{c:?}");
            assert_eq!(inked(c), !is_unseen(c) && !c.is_whitespace(), "{c:?}");
        }
    }
}

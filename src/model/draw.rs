//! A draw, as it is published, and as anybody can recompute it. What draws is a function of the database (`draw_entries`); an
//! audit has a query of its own.

use chrono::{DateTime, Utc};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::VoucherId;

/// What is published of a draw: the hash of the seed from the first moment, the entries once they are closed, the seed once
/// they are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DrawBody)]
pub struct Draw {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// When the entries close.
    pub draw_time: DateTime<Utc>,
    /// SHA-256 of the text of the seed, in hex.
    pub seed_hash: String,
    /// The source and the time of a public number that nobody could choose. Empty: there is none, and who knows the seed
    /// can know what an entry's place would be.
    pub beacon: String,
    /// That number in its one spelling, once it is there: as its source published it, without what is neither digit nor
    /// letter, in lower case, without leading zeros.
    #[schema(required = true)]
    pub number: Option<String>,
    /// The ids of all entries, sorted, once they are closed.
    #[schema(required = true, value_type = Option<Vec<String>>)]
    pub entries: Option<Vec<Uuid>>,
    /// SHA-256 of the ids, each with a line feed behind it, in hex.
    #[schema(required = true)]
    pub entries_hash: Option<String>,
    /// The seed, once the entries are drawn. They are served in the order of the SHA-256 of `voucher:seed:number:entry`.
    #[schema(required = true)]
    pub seed: Option<String>,
    /// When the entries were drawn.
    #[schema(required = true)]
    pub drawn_at: Option<DateTime<Utc>>,
}

/// What is said of any other text than [`is_public_number`] takes.
pub const PUBLIC_NUMBER: &str =
    "the number must be 1 to 200 digits and letters, in lower case and without leading zeros";

/// Whether `text` is the one spelling of a public number. Of a number with several spellings, each draws other winners: who
/// tells it could choose. The database has the same rule (`draw_number_has_one_spelling`).
pub fn is_public_number(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
        && (text == "0" || !text.starts_with('0'))
}

fn hash(text: &str) -> String {
    hex::encode(digest(&SHA256, text.as_bytes()))
}

impl Draw {
    /// Recomputes it. Returns the entries in the order in which they are served.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn verify(&self) -> Result<Vec<Uuid>, &'static str> {
        let Some(entries) = &self.entries else { return Err("its entries are not closed yet") };
        let Some(seed) = &self.seed else { return Err("it is not drawn yet, so there is no seed") };
        if hash(seed) != self.seed_hash {
            return Err("its seed is not the one whose hash was published");
        }
        if !entries.is_sorted_by(|one, next| one < next) {
            return Err("its entries are not sorted, or one of them is there twice");
        }
        let lines: String = entries.iter().map(|id| format!("{id}\n")).collect();
        if self.entries_hash != Some(hash(&lines)) {
            return Err("its entries are not those whose hash was published");
        }
        if self.beacon.is_empty() != self.number.is_none() {
            return Err("it has a public number without a source, or a source without its number");
        }
        if self.number.as_deref().is_some_and(|number| !is_public_number(number)) {
            return Err(
                "its public number has capital letters, leading zeros or other signs: it could be chosen",
            );
        }
        let number = self.number.as_deref().unwrap_or_default();
        let mut drawn = entries.clone();
        drawn.sort_by_cached_key(|id| hash(&format!("{}:{seed}:{number}:{id}", self.voucher_id)));
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are `sha256sum`'s.
    fn drawn() -> Draw {
        let id = |number: u128| Uuid::from_u128(number);
        let Some(voucher_id) = VoucherId::new(7) else { unreachable!("7 is positive") };
        let lines: String = (1..=3).map(|number| format!("{}\n", id(number))).collect();
        Draw {
            voucher_id,
            draw_time: DateTime::UNIX_EPOCH,
            seed_hash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                .to_owned(),
            beacon: "a lottery".to_owned(),
            number: Some("42".to_owned()),
            entries: Some((1..=3).map(id).collect()),
            entries_hash: Some(hash(&lines)),
            seed: Some("abc".to_owned()),
            drawn_at: Some(DateTime::UNIX_EPOCH),
        }
    }

    #[test]
    fn a_draw_that_is_what_it_says_is_told_from_each_that_is_not() {
        let changed = |change: fn(&mut Draw)| {
            let mut draw = drawn();
            change(&mut draw);
            draw.verify()
        };
        assert_eq!(changed(|_| ()).map(|order| order.len()), Ok(3));
        type Change = fn(&mut Draw);
        let wrong: [(Change, &str); 7] = [
            (|draw| draw.entries = None, "not closed"),
            (|draw| draw.seed = None, "not drawn"),
            (|draw| draw.seed = Some("abd".to_owned()), "its seed"),
            (|draw| draw.entries.iter_mut().for_each(|entries| entries.reverse()), "not sorted"),
            (|draw| draw.entries.iter_mut().for_each(|entries| _ = entries.pop()), "not those"),
            (|draw| draw.number = None, "source"),
            (|draw| draw.number = Some("042".to_owned()), "leading zeros"),
        ];
        for (change, why) in wrong {
            assert!(changed(change).is_err_and(|error| error.contains(why)), "{why}");
        }
        assert_ne!(changed(|draw| draw.number = Some("44".to_owned())), changed(|_| ()));
    }

    #[test]
    fn a_public_number_has_one_spelling() {
        for text in ["0", "7", "7f3a90", "100", &"7".repeat(200)] {
            assert!(is_public_number(text), "{text}");
        }
        for text in
            ["", "7F3A90", "7f3A90", "007f3a90", "00", "07", "7:1", "\u{663}", &"7".repeat(201)]
        {
            assert!(!is_public_number(text), "{text}");
        }
    }
}

//! A draw, as it is published, and as anybody can recompute it. What draws is a function of the database (`draw_entries`); an
//! audit has a query of its own.

use chrono::{DateTime, Utc};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::VoucherId;
use super::voucher_terms::to_the_microsecond;

/// What is published of a draw: the hash of the seed from the first moment, the entries once they are closed, the seed and the
/// places once they are drawn. From then on it never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DrawBody)]
pub struct Draw {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// When the entries close.
    pub draw_time: DateTime<Utc>,
    /// SHA-256 of the text of the seed, in hex.
    pub seed_hash: String,
    /// The source of a public number that nobody can choose, and the moment after `draw_time` at which it publishes it:
    /// `drand:quicknet:ROUND` or `NAME@TIME`. Empty: there is none, and who knows the seed can know what an entry's place
    /// would be.
    pub beacon: String,
    /// That number in its one spelling, once it is there: drand's randomness in hex, lower case; of another source all its
    /// digits; neither with leading zeros.
    #[schema(required = true)]
    pub number: Option<String>,
    /// The ids of all entries, sorted, once they are closed.
    #[schema(required = true, value_type = Option<Vec<String>>)]
    pub entries: Option<Vec<Uuid>>,
    /// SHA-256 of the ids, each with a line feed behind it, in hex.
    #[schema(required = true)]
    pub entries_hash: Option<String>,
    /// The seed, once the entries are drawn, or the sale was cancelled or ended before. They are served in the order of the SHA-256 of
    /// `voucher:seed:number:entry`.
    #[schema(required = true)]
    pub seed: Option<String>,
    /// The place of each of `entries` in that order, the first 1, once they are drawn.
    #[schema(required = true)]
    pub places: Option<Vec<i64>>,
    /// When the entries were drawn.
    #[schema(required = true)]
    pub drawn_at: Option<DateTime<Utc>>,
    /// When the sale was cancelled, if it was before the draw: nobody is drawn.
    #[schema(required = true)]
    pub cancelled_at: Option<DateTime<Utc>>,
    /// When the sale ended, if nothing was drawn by then: nobody is drawn.
    #[schema(required = true)]
    pub ended_at: Option<DateTime<Utc>>,
    /// The last other voucher with this title and a draw whose sale was cancelled, or ended without being drawn, before this one
    /// was drawn: this draw may have been made in its place.
    #[schema(required = true)]
    pub previous_draw: Option<VoucherId>,
}

/// What became of the entries of a draw since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DrawServiceBody)]
pub struct DrawService {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Each that waits no longer, in the order of their places. The others still wait.
    pub ended: Vec<EndedEntry>,
    /// Each that an administrator removed, also before the draw, in the order in which it was done.
    #[serde(default)]
    #[schema(required = true)]
    pub removed: Vec<RemovedEntry>,
}

/// An entry of a draw that waits no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = EndedEntryBody)]
pub struct EndedEntry {
    /// The entry.
    #[schema(value_type = String, format = "uuid")]
    pub entry_id: Uuid,
    /// Its place in the draw.
    #[schema(minimum = 1)]
    pub place: i64,
    /// `offered`: an order was. `left`: its buyer did. `removed`: an administrator did that. `passed`: its buyer could not have
    /// one, and waits at the end of the line, or has one already.
    #[schema(example = "offered")]
    pub outcome: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// An entry that an administrator removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedEntryBody)]
pub struct RemovedEntry {
    /// The entry.
    #[schema(value_type = String, format = "uuid")]
    pub entry_id: Uuid,
    /// Why, in the words of the administrator.
    pub reason: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// The source of a public number that nobody here chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// When the source publishes the number.
    pub at: DateTime<Utc>,
    is_drand: bool,
}

/// What is said of any other text than [`Beacon::read`] takes.
pub const BEACON: &str = "draw_beacon must be drand:quicknet:ROUND, or NAME@TIME, where TIME is the RFC 3339 instant at which \
                          the source publishes its digits: at most 200 characters, none of which is a control, zero-width or \
                          direction-changing one";

/// What is said of any other number than [`Beacon::takes`].
pub const PUBLIC_NUMBER: &str = "the number must be drand's randomness in hex, in lower case and without leading zeros, or 1 to \
                                 200 digits of another source, without leading zeros";

/// When drand's chain `quicknet` published its first round, in seconds since 1970, and from one round to the next.
const QUICKNET: (i64, i64) = (1_692_803_367, 3);

impl Beacon {
    /// The source that `text` names: a round of drand, whose instant is computed, or a name and an instant.
    pub fn read(text: &str) -> Option<Self> {
        let is_drand = text.starts_with("drand:");
        let at = if is_drand {
            let round = text.strip_prefix("drand:quicknet:")?;
            let number =
                round.parse::<i64>().ok().filter(|it| *it > 0 && it.to_string() == round)?;
            let after = (number - 1).checked_mul(QUICKNET.1)?;
            DateTime::from_timestamp(QUICKNET.0.checked_add(after)?, 0)?
        } else {
            let (_, at) = text.rsplit_once('@').filter(|(name, _)| !name.trim().is_empty())?;
            to_the_microsecond(DateTime::parse_from_rfc3339(at).ok()?.to_utc())
        };
        Some(Self { at, is_drand })
    }

    /// Whether `number` is the one spelling of a number of this source. Of a number with several spellings, each draws other
    /// winners: who tells it could choose. The database has the same rule (`draw_number_has_one_spelling`).
    pub fn takes(self, number: &str) -> bool {
        is_public_number(number)
            && if self.is_drand {
                number.len() <= 64
            } else {
                number.bytes().all(|byte| byte.is_ascii_digit())
            }
    }
}

/// Whether some source may have this number.
pub fn is_public_number(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && (text == "0" || !text.starts_with('0'))
}

fn hash(text: &str) -> String {
    hex::encode(digest(&SHA256, text.as_bytes()))
}

impl Draw {
    /// Recomputes it. Returns the entries in the order in which they are served; if the sale was over before, in that
    /// in which they would have been.
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
        self.verify_number()?;
        let number = self.number.as_deref().unwrap_or_default();
        let mut drawn = entries.clone();
        drawn.sort_by_cached_key(|id| hash(&format!("{}:{seed}:{number}:{id}", self.voucher_id)));
        let of_place = |place: &i64| drawn.get(usize::try_from(place - 1).ok()?);
        match &self.places {
            None if self.is_given_up() => Ok(drawn),
            Some(places) if places.iter().map(of_place).eq(entries.iter().map(Some)) => Ok(drawn),
            _ => Err("its places are not those that its seed and its number give"),
        }
    }

    fn is_given_up(&self) -> bool {
        self.cancelled_at.or(self.ended_at).is_some()
    }

    fn verify_number(&self) -> Result<(), &'static str> {
        match (Beacon::read(&self.beacon), &self.number) {
            (None, None) if self.beacon.is_empty() => Ok(()),
            (Some(beacon), Some(number)) if beacon.at > self.draw_time && beacon.takes(number) => {
                Ok(())
            }
            (_, None) if self.is_given_up() => {
                Err("its sale was over before the public number was told: there is no order")
            }
            _ => Err(
                "its public number is not one that its source published after the close, in its one spelling",
            ),
        }
    }
}

impl DrawService {
    /// Whether the entries were served in the order in which they were `drawn`: nobody behind was offered an order before one
    /// ahead was, or had left, or was removed, and why is published.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn verify(&self, drawn: &[Uuid]) -> Result<(), &'static str> {
        let (mut next, mut ahead_until) = (1, DateTime::<Utc>::MIN_UTC);
        for ended in &self.ended {
            let at = usize::try_from(ended.place - 1).ok().and_then(|place| drawn.get(place));
            if at != Some(&ended.entry_id) || ended.place < next {
                return Err("an entry was served at a place that is not its own in the draw");
            }
            let is_served = !["left", "removed"].contains(&ended.outcome.as_str());
            if is_served && (ended.place > next || ahead_until > ended.at) {
                return Err("an entry was offered an order before one ahead of it");
            }
            if ended.outcome == "removed"
                && !self.removed.iter().any(|removed| removed.entry_id == ended.entry_id)
            {
                return Err("an entry was removed, and no reason is published");
            }
            if ended.place == next {
                next += 1;
            }
            ahead_until = ahead_until.max(ended.at);
        }
        Ok(())
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
            beacon: "a lottery@1970-01-01T08:00:01+08:00".to_owned(),
            number: Some("42".to_owned()),
            entries: Some((1..=3).map(id).collect()),
            entries_hash: Some(hash(&lines)),
            seed: Some("abc".to_owned()),
            places: Some(vec![2, 3, 1]),
            drawn_at: Some(DateTime::UNIX_EPOCH),
            cancelled_at: None,
            ended_at: None,
            previous_draw: None,
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
        let wrong: [(Change, &str); 12] = [
            (|draw| draw.entries = None, "not closed"),
            (|draw| draw.seed = None, "not drawn"),
            (|draw| draw.seed = Some("abd".to_owned()), "its seed"),
            (|draw| draw.entries.iter_mut().for_each(|entries| entries.reverse()), "not sorted"),
            (|draw| draw.entries.iter_mut().for_each(|entries| _ = entries.pop()), "not those"),
            (|draw| draw.number = None, "public number"),
            (|draw| draw.number = Some("042".to_owned()), "one spelling"),
            (|draw| draw.number = Some("44".to_owned()), "its places"),
            (|draw| draw.places = None, "its places"),
            (|draw| draw.places.iter_mut().for_each(|places| places.swap(0, 1)), "its places"),
            (|draw| draw.beacon = "a lottery".to_owned(), "public number"),
            (|draw| draw.draw_time += chrono::TimeDelta::seconds(1), "after the close"),
        ];
        for (change, why) in wrong {
            assert!(changed(change).is_err_and(|error| error.contains(why)), "{why}");
        }
        let given_up: [Change; 2] = [
            |draw| draw.cancelled_at = draw.drawn_at.take(),
            |draw| draw.ended_at = draw.drawn_at.take(),
        ];
        for give_up in given_up {
            let mut draw = drawn();
            give_up(&mut draw);
            draw.places = None;
            assert_eq!(draw.verify(), drawn().verify());
        }
    }

    #[test]
    fn a_beacon_names_a_source_and_a_moment_and_takes_one_spelling_of_a_number() {
        let at = |text| Beacon::read(text).map(|beacon| beacon.at.to_rfc3339());
        // The first round is the genesis of the chain; each comes 3 seconds after the one before.
        assert_eq!(at("drand:quicknet:1").as_deref(), Some("2023-08-23T15:09:27+00:00"));
        assert_eq!(at("drand:quicknet:1000000").as_deref(), Some("2023-09-27T08:29:24+00:00"));
        assert_eq!(
            at("a@b@2026-11-12T08:00:00+08:00").as_deref(),
            Some("2026-11-12T00:00:00+00:00")
        );
        for text in [
            "a lottery",
            "the lottery of 2026-11-12",
            "@2026-11-12T00:00:00Z",
            "a lottery@2026-11-12",
            "drand:quicknet:0",
            "drand:quicknet:01",
            "drand:quicknet:-1",
            "drand:quicknet:9223372036854775807",
            "drand:default:1",
            "drand:quicknet@2026-11-12T00:00:00Z",
        ] {
            assert_eq!(Beacon::read(text), None, "{text}");
        }
        let [drand, lottery] =
            [true, false].map(|is_drand| Beacon { at: DateTime::UNIX_EPOCH, is_drand });
        for (number, of_drand, of_lottery) in [
            ("0", true, true),
            ("100", true, true),
            ("7f3a90", true, false),
            (&"7".repeat(64), true, true),
            (&"7".repeat(65), false, true),
            (&"7".repeat(200), false, true),
            (&"7".repeat(201), false, false),
        ] {
            assert_eq!(
                (drand.takes(number), lottery.takes(number)),
                (of_drand, of_lottery),
                "{number}"
            );
        }
        for number in ["", "7F3A90", "7f3A90", "007f3a90", "00", "07", "7:1", "\u{663}", "7g"] {
            assert!(!drand.takes(number) && !lottery.takes(number), "{number}");
        }
    }

    #[test]
    fn a_service_that_passed_somebody_is_told_from_one_that_did_not() {
        let drawn: Vec<Uuid> = (1..=3).map(Uuid::from_u128).collect();
        let served = |ended: &[(usize, &str, i64)]| {
            let ended = ended.iter().map(|(place, outcome, second)| EndedEntry {
                entry_id: drawn[place - 1],
                place: *place as i64,
                outcome: (*outcome).to_owned(),
                at: DateTime::from_timestamp(*second, 0).unwrap_or_default(),
            });
            let Some(voucher_id) = VoucherId::new(7) else { unreachable!("7 is positive") };
            let removed = RemovedEntry {
                entry_id: drawn[0],
                reason: "a bot".to_owned(),
                at: DateTime::UNIX_EPOCH,
            };
            DrawService { voucher_id, ended: ended.collect(), removed: vec![removed] }
        };
        for (ended, is_fair) in [
            (vec![], true),
            (vec![(1, "offered", 1), (2, "offered", 1)], true),
            (vec![(1, "left", 1), (2, "offered", 2), (3, "left", 1)], true),
            (vec![(2, "left", 1)], true),
            (vec![(1, "removed", 1), (2, "offered", 2)], true),
            (vec![(1, "removed", 2), (2, "offered", 1)], false),
            (vec![(1, "offered", 1), (2, "removed", 1)], false),
            (vec![(2, "offered", 1)], false),
            (vec![(1, "left", 2), (2, "offered", 1)], false),
            (vec![(1, "offered", 1), (3, "offered", 2)], false),
            (vec![(1, "offered", 1), (1, "offered", 1)], false),
        ] {
            assert_eq!(served(&ended).verify(&drawn).is_ok(), is_fair, "{ended:?}");
        }
        let mut other = served(&[(1, "offered", 1)]);
        other.ended[0].entry_id = drawn[1];
        assert!(other.verify(&drawn).is_err());
    }
}

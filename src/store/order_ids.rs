//! The order-id worker: 31 bits of seconds since 2022-01-01 and 32 bits of a per-day
//! Redis counter. The design is the "Redis INCR id worker" of the well-known flash-sale
//! courses, made safe against the two things that break it: a clock that goes back, and
//! a Redis that comes back empty.
//!
//! Within a process no id comes twice, and one that is asked for after another was handed
//! out is greater than it, whatever the clock and Redis do. Between processes ids are
//! unique while Redis keeps its counter, and ordered from one second to the next as far as the
//! machines' clocks agree (but not within one, for numbers are drawn ahead). In the very second in
//! which it loses it, a process may draw a number that another had drawn before; `orders_pkey`
//! then refuses the second order, and the purchase takes another id. From the next second on they
//! cannot meet.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;

use chrono::{DateTime, NaiveDate, Utc};

use super::{Keys, Redis, Service, StoreError};
use crate::model::{OrderId, SharedClock};

/// How often a counter that fell back is raised before the worker gives up.
const MAX_ATTEMPTS: usize = 4;

/// Who draws many draws for so many such batches: the next ones in the same second do not wait for
/// Redis. What is not used is skipped: some thousands of numbers a second, of 2^32 a day.
const DRAWN_AHEAD: u32 = 8;

/// No id could be made.
#[derive(Debug, thiserror::Error)]
pub enum OrderIdError {
    /// The clock shows a time before 2022 or after early 2090.
    #[error("the clock shows {0}, which an order id cannot name")]
    ClockOutOfRange(DateTime<Utc>),
    /// All 2^32 - 1 numbers of the day are used.
    #[error("the order counter of the day is exhausted ({0})")]
    SequenceExhausted(i64),
    /// Redis was not available.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OrderIdError {
    /// The same for another of those for whom it was drawn together.
    pub fn alike(&self) -> Self {
        match self {
            Self::ClockOutOfRange(now) => Self::ClockOutOfRange(*now),
            Self::SequenceExhausted(sequence) => Self::SequenceExhausted(*sequence),
            Self::Store(error) => Self::Store(error.alike()),
        }
    }

    /// Whether the same request may succeed a little later.
    pub const fn retry_may_help(&self) -> bool {
        match self {
            Self::Store(error) => error.retry_may_help(),
            Self::ClockOutOfRange(_) | Self::SequenceExhausted(_) => false,
        }
    }
}

/// Makes order ids. One per process.
#[derive(Debug)]
pub struct OrderIds {
    redis: Redis,
    keys: Keys,
    clock: SharedClock,
    floor: Mutex<Floor>,
}

/// What has been handed out: the next id lies above it.
#[derive(Debug)]
struct Floor {
    /// The latest second; -1 when no id is known.
    second: i64,
    /// The highest number handed out on `second`'s day.
    sequence: i64,
    /// How often Redis was found to have lost the counter.
    losses: u64,
    /// From which floor the requests under way started, and how many from each.
    starts: BTreeMap<i64, usize>,
    /// The numbers of `second`'s day above the lowest of `starts` that were handed out, as
    /// ranges that do not meet: the last number of each by its first. Answers overtake each
    /// other, so a number below `sequence` may be a good one; this tells it from one that a
    /// counter which fell back gives a second time.
    handed_out: BTreeMap<i64, i64>,
    spare: Option<Spare>,
    /// Whether numbers were left out when some were drawn for the last time.
    others_draw: bool,
}

/// Numbers that were drawn with others, and that nobody has yet. They count as handed out. They are
/// for the second in which they were drawn: in the next one, another process may have drawn them,
/// if Redis lost the counter meanwhile.
#[derive(Debug)]
struct Spare {
    second: i64,
    numbers: RangeInclusive<i64>,
}

impl Floor {
    fn raise(&mut self, second: i64, sequence: i64) {
        if day_of(second) != day_of(self.second) {
            if second < self.second {
                return;
            }
            self.sequence = 0;
            self.handed_out.clear();
        }
        self.second = self.second.max(second);
        self.sequence = self.sequence.max(sequence);
    }

    /// Whether a number of `numbers` is among those that were handed out.
    fn gave_any_of(&self, numbers: &RangeInclusive<i64>) -> bool {
        // They do not meet, so of all that begin early enough the last one reaches furthest.
        let before = self.handed_out.range(..=*numbers.end()).next_back();
        before.is_some_and(|(_, last)| last >= numbers.start())
    }

    /// So many numbers of those that are spare in this second. Not when higher ones were handed out
    /// since, for whoever asks now is to have one above them.
    fn take_spare(&mut self, second: i64, count: u32) -> Option<RangeInclusive<i64>> {
        let spare = self.spare.as_mut()?;
        let (first, last) = (*spare.numbers.start(), *spare.numbers.end());
        let rest = first + i64::from(count);
        if spare.second != second || last != self.sequence || rest - 1 > last {
            return None;
        }
        spare.numbers = rest..=last;
        Some(first..=rest - 1)
    }

    /// The highest number handed out on `day`.
    fn used_on(&self, day: Option<NaiveDate>) -> i64 {
        if day == day_of(self.second) { self.sequence } else { 0 }
    }
}

/// A request under way: what it started from.
struct Attempt<'a> {
    ids: &'a OrderIds,
    second: i64,
    day: NaiveDate,
    used: i64,
    losses: u64,
    /// How many are wanted.
    count: u32,
}

/// What somebody who asks starts with.
enum Begun<'a> {
    /// Ids with these numbers, in this second.
    Spare(i64, RangeInclusive<i64>),
    Attempt(Attempt<'a>),
}

/// What became of numbers.
enum Drawn {
    /// Ids with these numbers, in this second.
    Fresh(i64, RangeInclusive<i64>),
    /// Redis lost the counter: one of the numbers was handed out before. Seen in this second.
    FellBack(i64),
    /// Midnight passed or Redis lost the counter meanwhile: the numbers are of no use.
    Overtaken,
}

impl OrderIds {
    /// A worker that continues after `last`, the greatest id known (the database's, so
    /// that neither a restart nor an emptied Redis makes it forget).
    pub fn new(redis: Redis, keys: Keys, clock: SharedClock, last: Option<OrderId>) -> Self {
        let floor = Floor {
            second: last.map_or(-1, OrderId::second),
            sequence: last.map_or(0, OrderId::sequence),
            losses: 0,
            starts: BTreeMap::new(),
            handed_out: BTreeMap::new(),
            spare: None,
            others_draw: false,
        };
        Self { redis, keys, clock, floor: Mutex::new(floor) }
    }

    /// The next id: one `INCRBY` at most, one round trip.
    ///
    /// # Errors
    /// Never a wrong id: an error when the clock or the counter is outside its field, or
    /// when Redis does not answer (a number may then be skipped; numbers have gaps).
    pub async fn next(&self) -> Result<OrderId, OrderIdError> {
        let (second, numbers) = self.draw(1).await?;
        id_of(second, *numbers.start())
    }

    /// The next `count` ids, in a row, the smallest first: one `INCRBY` at most. It draws some more,
    /// for whoever asks within the same second: he need not ask Redis.
    ///
    /// # Errors
    /// As [`OrderIds::next`]; also when only the last of them would be outside its field.
    pub async fn next_many(&self, count: u32) -> Result<Vec<OrderId>, OrderIdError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (second, numbers) = self.draw(count).await?;
        numbers.map(|sequence| id_of(second, sequence)).collect()
    }

    /// Whether other processes draw, too, as far as this one knows: when it drew for the last time,
    /// numbers were left out since the time before. (They may be of a draw of its own that failed.)
    pub fn others_draw(&self) -> bool {
        self.with_floor(|floor| floor.others_draw)
    }

    /// The next id comes from Redis: for whoever found one taken, for Redis has lost the counter
    /// then, and those that were drawn ahead may be taken, too.
    pub fn forget_spare(&self) {
        self.with_floor(|floor| floor.spare = None);
    }

    async fn draw(&self, count: u32) -> Result<(i64, RangeInclusive<i64>), OrderIdError> {
        for _ in 0..MAX_ATTEMPTS {
            let attempt = match self.begin(count)? {
                Begun::Spare(second, numbers) => return Ok((second, numbers)),
                Begun::Attempt(attempt) => attempt,
            };
            let key = self.keys.order_counter(attempt.day);
            let drawn = if count > 1 { count.saturating_mul(DRAWN_AHEAD) } else { count };
            let last = self.increment(&key, drawn).await?;
            match attempt.judge(last - i64::from(drawn) + 1..=last)? {
                Drawn::Fresh(second, numbers) => return Ok((second, numbers)),
                Drawn::FellBack(second) => self.leave_behind(&key, attempt.day, second).await?,
                Drawn::Overtaken => {}
            }
        }
        Err(OrderIdError::Store(StoreError::Unavailable {
            service: Service::Redis,
            cause: "the order counter keeps falling back".into(),
        }))
    }

    fn begin(&self, count: u32) -> Result<Begun<'_>, OrderIdError> {
        let now = self.clock.now();
        self.with_floor(|floor| {
            // A clock that went back is not followed.
            let second = (now.timestamp() - OrderId::EPOCH_SECONDS).max(floor.second);
            if !(0..=OrderId::MAX_SECOND).contains(&second) {
                return Err(OrderIdError::ClockOutOfRange(now));
            }
            let day = day_of(second).ok_or(OrderIdError::ClockOutOfRange(now))?;
            if let Some(numbers) = floor.take_spare(second, count) {
                return Ok(Begun::Spare(second, numbers));
            }
            let used = floor.used_on(Some(day));
            *floor.starts.entry(used).or_default() += 1;
            let losses = floor.losses;
            Ok(Begun::Attempt(Attempt { ids: self, second, day, used, losses, count }))
        })
    }

    async fn increment(&self, key: &str, count: u32) -> Result<i64, OrderIdError> {
        match self.redis.query(redis::cmd("INCRBY").arg(key).arg(count)).await {
            // Redis refuses to pass 2^63 - 1; the counter is far beyond its field then.
            Err(StoreError::Defect { cause, .. }) if cause.to_string().contains("overflow") => {
                Err(OrderIdError::SequenceExhausted(i64::MAX))
            }
            other => Ok(other?),
        }
    }

    /// The counter is behind what this process has handed out: Redis lost it. Raises it
    /// and moves on to the next second, for in this one other processes may have handed
    /// out numbers that nobody remembers.
    async fn leave_behind(
        &self,
        key: &str,
        day: NaiveDate,
        second: i64,
    ) -> Result<(), OrderIdError> {
        let used = self.with_floor(|floor| floor.used_on(Some(day)));
        tracing::warn!(key, used, "the order counter fell back: Redis lost data; raising it");
        static RAISE: std::sync::LazyLock<redis::Script> = std::sync::LazyLock::new(|| {
            redis::Script::new(include_str!("../../lua/order_ids/raise.lua"))
        });
        let _: i64 = self.redis.invoke(RAISE.key(key).arg(used)).await?;
        self.with_floor(|floor| {
            // Only who sees the second unchanged moves it: ten that notice at once move it once.
            if floor.second <= second {
                floor.raise(second + 1, 0);
                floor.losses += 1;
            }
        });
        Ok(())
    }

    fn with_floor<T>(&self, work: impl FnOnce(&mut Floor) -> T) -> T {
        work(&mut self.floor.lock().unwrap_or_else(|poison| poison.into_inner()))
    }
}

impl Attempt<'_> {
    /// Why no id comes twice: each has the floor's second, which never goes back, and
    /// within a second (so within a day) a number is refused if it was handed out before
    /// this attempt began (it is at most `used`) or since (it is in `handed_out`, from
    /// which nothing above the start of an attempt under way is removed). Numbers that are
    /// drawn together are refused together, and the spare ones among them are handed out once.
    fn judge(&self, numbers: RangeInclusive<i64>) -> Result<Drawn, OrderIdError> {
        self.ids.with_floor(|floor| {
            let second = self.second.max(floor.second);
            // After a loss, `second` may hold forgotten numbers of other processes.
            if floor.losses != self.losses || day_of(second) != Some(self.day) {
                return Ok(Drawn::Overtaken);
            }
            let same_day = day_of(floor.second) == Some(self.day);
            let (first, last) = (*numbers.start(), *numbers.end());
            if first <= self.used || same_day && floor.gave_any_of(&numbers) {
                return Ok(Drawn::FellBack(second));
            }
            // The last that is wanted; no more than `last`.
            let own = first + (i64::from(self.count) - 1);
            id_of(second, own)?;
            if !same_day || first == floor.sequence + 1 {
                floor.others_draw = false;
            } else if first > floor.sequence && floor.starts.values().sum::<usize>() == 1 {
                // With another attempt of this process under way those between may be that one's,
                // and nothing new is known. Nor if this is the one that was overtaken.
                floor.others_draw = true;
            }
            floor.raise(second, last);
            floor.handed_out.insert(first, last);
            if floor.sequence == last {
                floor.spare = Some(Spare { second, numbers: own + 1..=last });
            }
            Ok(Drawn::Fresh(second, first..=own))
        })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.ids.with_floor(|floor| {
            if let Some(started) = floor.starts.get_mut(&self.used) {
                *started -= 1;
                if *started == 0 {
                    floor.starts.remove(&self.used);
                }
            }
            let lowest = floor.starts.first_key_value().map_or(i64::MAX, |(start, _)| *start);
            while floor.handed_out.first_key_value().is_some_and(|(_, last)| *last <= lowest) {
                floor.handed_out.pop_first();
            }
        });
    }
}

fn id_of(second: i64, sequence: i64) -> Result<OrderId, OrderIdError> {
    OrderId::from_parts(second, sequence).ok_or(OrderIdError::SequenceExhausted(sequence))
}

/// The UTC day that `second` of the order-id epoch falls on.
fn day_of(second: i64) -> Option<NaiveDate> {
    DateTime::from_timestamp(OrderId::EPOCH_SECONDS + second, 0).map(|instant| instant.date_naive())
}

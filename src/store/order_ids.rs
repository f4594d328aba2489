//! The order-id worker: 31 bits of seconds since 2022-01-01 and 32 bits of a per-day Redis counter.
//! The design is the "Redis INCR id worker" of the well-known flash-sale courses, made safe against
//! the two things that break it: a clock that goes back, and a Redis that comes back empty.
//!
//! Purchases that wait for an id draw together, by one `INCRBY`, and a process has one such call
//! under way at a time. Within a process no id comes twice, and each id is greater than those handed
//! out before it was asked for, whatever the clock and Redis do.
//!
//! Between processes ids are unique while Redis keeps its counter, and they grow from one second to the
//! next as far as the machines' clocks agree. If Redis loses the counter, a process may, in that
//! second, draw a number that another process had drawn before. The database then refuses the second
//! order of the voucher with that id, and the purchase takes another id.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, NaiveDate, Utc};

use super::{Keys, Service, StoreError};
use crate::model::{OrderId, SharedClock};
use crate::telemetry::News;
use group_commit::{BatchError, Batcher, Limits};
use redis_link::{LinkError, Redis, ScriptCall};

/// How often the worker raises a counter that fell back before it gives up.
const MAX_ATTEMPTS: usize = 4;

/// Ids in one draw. There is one draw at a time: see the module's documentation.
const MOST_IDS: usize = 1024;

/// No id could be made.
#[derive(Debug, Clone, thiserror::Error)]
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
    /// Whether the same request may succeed later, if only on the next day.
    pub const fn retry_may_help(&self) -> bool {
        match self {
            Self::Store(error) => error.retry_may_help(),
            // The next day has new numbers.
            Self::SequenceExhausted(_) => true,
            Self::ClockOutOfRange(_) => false,
        }
    }

    fn from_batch(error: BatchError<Self>) -> Self {
        let why = match error {
            BatchError::Failed(error) | BatchError::NotStarted(error) => return error,
            BatchError::Full => "too many purchases wait for an order id already",
            BatchError::NoSlot => unreachable!("the id worker shares no slots"),
            _ => "the draw of order ids was interrupted",
        };
        StoreError::unavailable(Service::Redis, why).into()
    }
}

/// Makes order ids. One per process.
#[derive(Debug)]
pub struct OrderIds {
    draws: Batcher<(), OrderId, OrderIdError>,
}

impl OrderIds {
    /// A worker that continues after `last`, the greatest id of the database: neither a restart nor an
    /// emptied Redis makes it go back.
    pub fn new(redis: Redis, keys: Keys, clock: SharedClock, last: Option<OrderId>) -> Self {
        let last = Mutex::new(Last {
            second: last.map_or(-1, OrderId::second),
            sequence: last.map_or(0, OrderId::sequence),
        });
        let exhaustion = News::after(false);
        let worker = Arc::new(OrderIdWorker { redis, keys, clock, last, exhaustion });
        let draws = Batcher::new(Limits::batches_of(MOST_IDS), move |waiting: Vec<()>| {
            let worker = Arc::clone(&worker);
            async move {
                let drawn = worker.draw(waiting.len()).await;
                worker.tell_exhaustion(&drawn);
                drawn
            }
        });
        Self { draws }
    }

    /// The next id.
    ///
    /// # Errors
    /// When the clock or the counter is outside its field, never a wrong id; or when Redis does not answer.
    pub async fn next(&self) -> Result<OrderId, OrderIdError> {
        self.draws.submit(()).await.map_err(OrderIdError::from_batch)
    }
}

#[derive(Debug)]
struct OrderIdWorker {
    redis: Redis,
    keys: Keys,
    clock: SharedClock,
    last: Mutex<Last>,
    exhaustion: News<bool>,
}

/// The last id handed out: the next one is greater.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Last {
    /// -1 when no id is known.
    second: i64,
    /// The highest number of that second's day.
    sequence: i64,
}

impl Last {
    /// The highest number handed out on `day`.
    fn sequence_on(self, day: NaiveDate) -> i64 {
        if day_of(self.second) == day { self.sequence } else { 0 }
    }
}

impl OrderIdWorker {
    /// The next `count` ids, the smallest first.
    async fn draw(&self, count: usize) -> Result<Vec<OrderId>, OrderIdError> {
        assert!((1..=MOST_IDS).contains(&count), "{count} ids for one batch of purchases");
        let count = count as i64;
        for _ in 0..MAX_ATTEMPTS {
            let now = self.clock.now();
            let last = self.last();
            // A clock that went back is not followed.
            let second = (now.timestamp() - OrderId::EPOCH_SECONDS).max(last.second);
            if !(0..=OrderId::MAX_SECOND).contains(&second) {
                return Err(OrderIdError::ClockOutOfRange(now));
            }
            let day = day_of(second);
            let key = self.keys.order_counter(day);
            let highest = self.increment(&key, count).await?;
            let first = highest - count + 1;
            let used = last.sequence_on(day);
            if first > used {
                let ids = (first..=highest).map(|sequence| {
                    let id = OrderId::from_parts(second, sequence);
                    id.ok_or(OrderIdError::SequenceExhausted(sequence))
                });
                let ids = ids.collect::<Result<Vec<_>, _>>()?;
                self.set_last(Last { second, sequence: highest });
                return Ok(ids);
            }
            // Redis lost the counter. In this second other processes may have handed out the
            // same numbers, so the next attempt takes the next second.
            tracing::warn!(key, used, "the order counter fell back: Redis lost data; raising it");
            self.raise(&key, used).await?;
            let sequence = last.sequence_on(day_of(second + 1));
            self.set_last(Last { second: second + 1, sequence });
        }
        let why = "the order counter keeps falling back";
        Err(StoreError::unavailable(Service::Redis, why).into())
    }

    /// Logs that the numbers of the day are used up, once and not for each buyer.
    fn tell_exhaustion<T>(&self, drawn: &Result<T, OrderIdError>) {
        match drawn {
            Err(OrderIdError::SequenceExhausted(_)) if self.exhaustion.is(true) => tracing::error!(
                "the order ids of the day are used up: buyers get 503 until the next (UTC)"
            ),
            Ok(_) => {
                self.exhaustion.is(false);
            }
            Err(_) => {}
        }
    }

    async fn increment(&self, key: &str, count: i64) -> Result<i64, OrderIdError> {
        match self.redis.query(redis::cmd("INCRBY").arg(key).arg(count)).await {
            // Redis refuses to pass 2^63 - 1; the counter is far beyond its field then.
            Err(LinkError::Defect(cause)) if cause.to_string().contains("overflow") => {
                Err(OrderIdError::SequenceExhausted(i64::MAX))
            }
            other => Ok(other.map_err(StoreError::from)?),
        }
    }

    async fn raise(&self, key: &str, used: i64) -> Result<(), StoreError> {
        static RAISE: std::sync::LazyLock<redis_link::LuaScript> = std::sync::LazyLock::new(|| {
            redis_link::LuaScript::new(include_str!("../../lua/order_ids/raise.lua"))
        });
        self.redis.invoke::<i64>(&ScriptCall::new(&RAISE).key(key).arg(used)).await?;
        Ok(())
    }

    fn last(&self) -> Last {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_last(&self, last: Last) {
        let mut before = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(last > *before, "order ids must grow: {last:?} after {before:?}");
        *before = last;
    }
}

/// The UTC day that `second` of the order-id epoch falls on.
fn day_of(second: i64) -> NaiveDate {
    match DateTime::from_timestamp(OrderId::EPOCH_SECONDS + second, 0) {
        Some(instant) => instant.date_naive(),
        None => unreachable!("{second} is no second of an order id"),
    }
}

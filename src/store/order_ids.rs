//! The order-id worker: 31 bits of seconds since 2022-01-01 and 32 bits of a per-day
//! Redis counter. The design is the "Redis INCR id worker" of the well-known flash-sale
//! courses, made safe against the two things that break it: a clock that goes back, and
//! a Redis that comes back empty.
//!
//! Within a process, an id that is asked for after another was handed out is greater
//! than it, whatever the clock and Redis do. Between processes ids are unique, and
//! ordered as far as the machines' clocks agree to the second.

use std::sync::Mutex;

use chrono::{DateTime, NaiveDate, Utc};

use super::{Keys, Redis, Service, StoreError};
use crate::model::{OrderId, SharedClock};

/// How often a counter that fell back is raised before the worker gives up.
const MAX_ATTEMPTS: usize = 4;

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
#[derive(Debug, Clone, Copy, Default)]
struct Floor {
    /// The latest second.
    second: i64,
    /// The highest number handed out on `second`'s day.
    sequence: i64,
    /// How often Redis was found to have lost the counter.
    losses: u64,
}

impl Floor {
    fn raise(&mut self, second: i64, sequence: i64) {
        if day_of(second) != day_of(self.second) {
            if second < self.second {
                return;
            }
            self.sequence = 0;
        }
        self.second = self.second.max(second);
        self.sequence = self.sequence.max(sequence);
    }
}

impl OrderIds {
    /// A worker that continues after `last`, the greatest id known (the database's, so
    /// that neither a restart nor an emptied Redis makes it forget).
    pub fn new(redis: Redis, keys: Keys, clock: SharedClock, last: Option<OrderId>) -> Self {
        let floor = last.map_or_else(Floor::default, |id| Floor {
            second: id.second(),
            sequence: id.sequence(),
            losses: 0,
        });
        Self { redis, keys, clock, floor: Mutex::new(floor) }
    }

    /// The next id: one `INCR`, one round trip.
    ///
    /// # Errors
    /// Never a wrong id: an error when the clock or the counter is outside its field, or
    /// when Redis does not answer (a number may then be skipped; numbers have gaps).
    pub async fn next(&self) -> Result<OrderId, OrderIdError> {
        for _ in 0..MAX_ATTEMPTS {
            let floor = self.floor();
            let now = self.clock.now();
            // A clock that went back is not followed.
            let second = (now.timestamp() - OrderId::EPOCH_SECONDS).max(floor.second);
            if !(0..=OrderId::MAX_SECOND).contains(&second) {
                return Err(OrderIdError::ClockOutOfRange(now));
            }
            let day = day_of(second).ok_or(OrderIdError::ClockOutOfRange(now))?;
            let key = self.keys.order_counter(day);
            let sequence: i64 = self.increment(&key).await?;
            let used = if Some(day) == day_of(floor.second) { floor.sequence } else { 0 };
            if sequence <= used {
                self.leave_behind(&key, second, used).await?;
                continue;
            }
            let id = OrderId::from_parts(second, sequence)
                .ok_or(OrderIdError::SequenceExhausted(sequence))?;
            let handed_out = self.with_floor(|current| {
                // The counter was lost meanwhile: `second` may hold forgotten numbers.
                let undisturbed = current.losses == floor.losses;
                if undisturbed {
                    current.raise(second, sequence);
                }
                undisturbed
            });
            if handed_out {
                return Ok(id);
            }
        }
        Err(StoreError::defect(Service::Redis, "the order counter keeps falling back").into())
    }

    async fn increment(&self, key: &str) -> Result<i64, OrderIdError> {
        match self.redis.query(redis::cmd("INCR").arg(key)).await {
            // INCR refuses to pass 2^63 - 1; the counter is far beyond its field then.
            Err(StoreError::Defect { cause, .. }) if cause.to_string().contains("overflow") => {
                Err(OrderIdError::SequenceExhausted(i64::MAX))
            }
            other => Ok(other?),
        }
    }

    /// The counter is behind what this process has handed out: Redis lost it. Raises it
    /// and moves on to the next second, for in this one other processes may have handed
    /// out numbers that nobody remembers.
    async fn leave_behind(&self, key: &str, second: i64, used: i64) -> Result<(), OrderIdError> {
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

    fn floor(&self) -> Floor {
        self.with_floor(|floor| *floor)
    }

    fn with_floor<T>(&self, work: impl FnOnce(&mut Floor) -> T) -> T {
        work(&mut self.floor.lock().unwrap_or_else(|poison| poison.into_inner()))
    }
}

/// The UTC day that `second` of the order-id epoch falls on.
fn day_of(second: i64) -> Option<NaiveDate> {
    DateTime::from_timestamp(OrderId::EPOCH_SECONDS + second, 0).map(|instant| instant.date_naive())
}

//! Ended sessions, in memory: whether a token was revoked is known without asking a store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::tokens::{LONGEST_TOKEN_LIFE, VerifiedToken};
use crate::model::UserId;
use crate::store::{Database, DatabaseClock, StoreError, read_at_start, revocations, vouchers};
use crate::telemetry::News;
use crate::worker::{Chore, Worker};

/// How often the database is asked: how long a token may outlive its session on another server.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// A revocation that was written before the last poll may be committed after it. A statement takes
/// half of this time, as a rule.
const OVERLAP: TimeDelta = TimeDelta::seconds(10);
/// Every so many polls everything is read that can concern a token. A commit has no time limit: one that waits for
/// a standby, or a server that was paused, may come after any overlap.
const POLLS_TO_READ_ALL: u32 = 60;
/// Rows of one query.
const PAGE: i64 = 5_000;
/// Users remembered, in some 20 MB. Beyond it the oldest tenth of the revocations becomes one that
/// concerns everybody: tokens older than these are void. At half a million logouts in seven days
/// (the life of a token) no session notices.
const MAX_USERS: usize = 500_000;

/// Since when the tokens of each user are good, in microseconds of Unix time.
#[derive(Debug)]
struct NotBefore {
    max_users: usize,
    users: HashMap<UserId, i64>,
    everybody: i64,
}

impl NotBefore {
    fn new(max_users: usize) -> Self {
        Self { max_users, users: HashMap::new(), everybody: i64::MIN }
    }

    fn add(&mut self, user: UserId, not_before: i64) {
        if not_before <= self.everybody {
            return;
        }
        let known = self.users.entry(user).or_insert(not_before);
        *known = not_before.max(*known);
        if self.users.len() > self.max_users {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let mut instants: Vec<i64> = self.users.values().copied().collect();
        let tenth = instants.len() / 10;
        let (_, oldest, _) = instants.select_nth_unstable(tenth);
        self.everybody = *oldest;
        self.users.retain(|_, not_before| *not_before > self.everybody);
    }

    fn is_void(&self, token: &VerifiedToken) -> bool {
        // Not by the stamp: the clock that made it may have been ahead.
        let ended = self.users.get(&token.user);
        ended.is_some_and(|end| token.after.is_none_or(|after| after < *end))
            || token.issued.timestamp_micros() < self.everybody
    }
}

/// What this process knows of revoked tokens. A task keeps it up to date as long as this lives.
#[derive(Debug)]
pub struct Revocations {
    not_before: Arc<RwLock<NotBefore>>,
    worker: Worker,
}

impl Revocations {
    /// Loads what `database` holds, and learns of changes from then on, about once a second. So `clock` learns as
    /// often what time it is, also while nobody buys.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn start(database: Database, clock: Arc<DatabaseClock>) -> Result<Self, StoreError> {
        Self::polling(database, clock, POLL_EVERY).await
    }

    /// As [`Revocations::start`], and asks `every` so often.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn polling(
        database: Database,
        clock: Arc<DatabaseClock>,
        every: Duration,
    ) -> Result<Self, StoreError> {
        let not_before = Arc::new(RwLock::new(NotBefore::new(MAX_USERS)));
        let memory = Arc::clone(&not_before);
        let (polled, polls, is_away) = (None, 0, News::after(false));
        let poll = Poll { database, clock, not_before: memory, every, polled, polls, is_away };
        let polled = Some(read_at_start(|| poll.read(None)).await?);
        Ok(Self { not_before, worker: Worker::start(Poll { polled, ..poll }) })
    }

    /// `user` has ended all sessions at `not_before`.
    pub fn add(&self, user: UserId, not_before: DateTime<Utc>) {
        let mut known = self.not_before.write().unwrap_or_else(PoisonError::into_inner);
        known.add(user, not_before.timestamp_micros());
    }

    /// When `user` ended all sessions last, as far as is known here. It may be later than what the database says: a
    /// standby that took over may have lost it.
    pub fn end_of(&self, user: UserId) -> Option<DateTime<Utc>> {
        let known = self.not_before.read().unwrap_or_else(PoisonError::into_inner);
        known.users.get(&user).copied().and_then(DateTime::from_timestamp_micros)
    }

    /// Whether the user has ended all sessions since `token` was issued.
    pub fn is_void(&self, token: &VerifiedToken) -> bool {
        self.not_before.read().unwrap_or_else(PoisonError::into_inner).is_void(token)
    }

    /// Asks the database no more.
    pub fn stop(&self) {
        self.worker.stop();
    }
}

/// Asks the database for what has changed.
struct Poll {
    database: Database,
    clock: Arc<DatabaseClock>,
    not_before: Arc<RwLock<NotBefore>>,
    every: Duration,
    /// When it was asked last, by its own clock.
    polled: Option<DateTime<Utc>>,
    /// How often it was asked since all was read.
    polls: u32,
    /// Whether it did not answer the last time.
    is_away: News<bool>,
}

impl Chore for Poll {
    /// Reads what has changed since the last time, and now and then all.
    async fn step(&mut self) -> Result<bool, StoreError> {
        let polled = self.polled.filter(|_| self.polls < POLLS_TO_READ_ALL);
        match self.read(polled).await {
            Ok(now) => {
                self.polls = if polled.is_some() { self.polls + 1 } else { 0 };
                self.polled = Some(now);
                if self.is_away.is(false) {
                    tracing::info!("ended sessions are read from the database again");
                }
            }
            Err(error) if self.is_away.is(true) => tracing::warn!(
                %error,
                "ended sessions cannot be read from the database: those known stay ended"
            ),
            Err(_) => {}
        }
        Ok(false)
    }

    fn rest(&self) -> Duration {
        self.every
    }
}

impl Poll {
    /// Reads what has changed since the database was asked at `polled`; without that, all that can concern a token. Returns
    /// when it was asked now.
    async fn read(&self, polled: Option<DateTime<Utc>>) -> Result<DateTime<Utc>, StoreError> {
        let pool = self.database.pool();
        vouchers::read_clock(pool, &self.clock).await?;
        let now = self.clock.earliest();
        // The clock of a database that took over may be behind.
        let since = polled.map(|polled| polled.min(now) - OVERLAP);
        let mut after = (since.unwrap_or(now - LONGEST_TOKEN_LIFE), 0);
        loop {
            let page = revocations::list_after(pool, after, PAGE).await?;
            let Some((user, instant)) = page.last() else { break };
            after = (*instant, user.get());
            let mut known = self.not_before.write().unwrap_or_else(PoisonError::into_inner);
            for (user, instant) in &page {
                known.add(*user, instant.timestamp_micros());
            }
            if (page.len() as i64) < PAGE {
                break;
            }
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: i64) -> UserId {
        let Some(user) = UserId::new(number) else { unreachable!("{number} is positive") };
        user
    }

    fn token(number: i64, issued: i64, after: Option<i64>) -> VerifiedToken {
        let issued = DateTime::from_timestamp_micros(issued).unwrap_or_default();
        VerifiedToken { user: user(number), issued, after }
    }

    #[test]
    fn a_token_is_void_when_its_user_has_ended_all_sessions_since() {
        let mut known = NotBefore::new(10);
        assert!(!known.is_void(&token(1, 0, None)));
        for not_before in [70, 50] {
            known.add(user(1), not_before);
        }
        for (after, is_void) in
            [(None, true), (Some(69), true), (Some(70), false), (Some(71), false)]
        {
            // The stamp says nothing.
            for issued in [0, 70, i64::from(i32::MAX)] {
                assert_eq!(known.is_void(&token(1, issued, after)), is_void, "{after:?} {issued}");
                assert!(!known.is_void(&token(2, issued, after)));
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_no_revoked_token_becomes_good_again() {
        let mut known = NotBefore::new(100);
        for number in 1..=1_000 {
            known.add(user(number), number);
            assert!(known.users.len() <= 100, "{number}");
        }
        for number in 1..=1_000 {
            let issued = number.max(known.everybody);
            assert!(known.is_void(&token(number, number - 1, None)), "{number}");
            assert!(!known.is_void(&token(number, issued, Some(number))), "{number}");
        }
        // Of the others the old ones are void, too, and only those.
        let everybody = known.everybody;
        assert!((800..1_000).contains(&everybody), "{everybody}");
        assert!(known.is_void(&token(5_000, everybody - 1, None)));
        assert!(!known.is_void(&token(5_000, everybody, None)));
    }
}

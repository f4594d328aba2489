//! Ended sessions, in memory: whether a token was revoked is known without asking a store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::AbortHandle;

use super::tokens::LONGEST_TOKEN_LIFE;
use crate::model::UserId;
use crate::store::{Database, DatabaseClock, StartTries, StoreError, revocations, vouchers};

/// How often the database is asked: how long a token may outlive its session on another server.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// A revocation that was written before the last poll may be committed after it. A statement takes
/// half of this time, as a rule.
const OVERLAP: TimeDelta = TimeDelta::seconds(10);
/// Every so many polls everything is read that can concern a token. A commit has no time limit: one that waits for
/// a standby, or a server that was paused, may come after any overlap.
const POLLS_TO_READ_ALL: u32 = 60;
/// How far the stamp of a good token may lie in the future: servers do not know the database's clock exactly.
const STAMPED_AHEAD: TimeDelta = TimeDelta::seconds(2);
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

    fn is_void(&self, user: UserId, issued: i64, is_ahead: bool) -> bool {
        let of_user = self.users.get(&user).copied();
        // The first token after the end has the end's own stamp. Any other one of the future may be older than it.
        let is_unsure = is_ahead && of_user.is_some_and(|not_before| issued != not_before);
        is_unsure || issued < self.everybody.max(of_user.unwrap_or(i64::MIN))
    }
}

/// Whether a token was stamped by a clock that is ahead: nobody knows when it was issued.
pub fn is_ahead(issued: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    issued > now + STAMPED_AHEAD
}

/// What this process knows of revoked tokens. A task keeps it up to date as long as this lives.
#[derive(Debug)]
pub struct Revocations {
    not_before: Arc<RwLock<NotBefore>>,
    task: AbortHandle,
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
        let mut poll = Poll { database, clock, not_before: memory, every, polled: None, polls: 0 };
        let mut tries = StartTries::default();
        while let Err(error) = poll.step().await {
            if !tries.another_may_help(&error) {
                return Err(error);
            }
        }
        let task = tokio::spawn(poll.run()).abort_handle();
        Ok(Self { not_before, task })
    }

    /// Tokens of `user` that were issued before `not_before` are void.
    pub fn add(&self, user: UserId, not_before: DateTime<Utc>) {
        let mut known = self.not_before.write().unwrap_or_else(PoisonError::into_inner);
        known.add(user, not_before.timestamp_micros());
    }

    /// Whether a token of `user` that says it was issued at `issued` is void at `now`.
    pub fn is_void(&self, user: UserId, issued: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        let known = self.not_before.read().unwrap_or_else(PoisonError::into_inner);
        known.is_void(user, issued.timestamp_micros(), is_ahead(issued, now))
    }

    /// Asks the database no more.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Revocations {
    fn drop(&mut self) {
        self.stop();
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
}

impl Poll {
    /// Reads what has changed since the last time; the first time, and now and then, all that can concern a token.
    async fn step(&mut self) -> Result<(), StoreError> {
        let pool = self.database.pool();
        vouchers::read_clock(pool, &self.clock).await?;
        let now = self.clock.earliest();
        // The clock of a database that took over may be behind.
        let polled = self.polled.filter(|_| self.polls < POLLS_TO_READ_ALL);
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
        self.polls = if since.is_some() { self.polls + 1 } else { 0 };
        self.polled = Some(now);
        Ok(())
    }

    async fn run(mut self) {
        let mut away = false;
        loop {
            tokio::time::sleep(self.every).await;
            match self.step().await {
                Ok(()) if away => {
                    tracing::info!("ended sessions are read from the database again");
                    away = false;
                }
                Err(error) if !away => {
                    tracing::warn!(
                        %error,
                        "ended sessions cannot be read from the database: those known stay ended"
                    );
                    away = true;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: i64) -> UserId {
        let Some(user) = UserId::new(number) else { unreachable!("{number} is positive") };
        user
    }

    #[test]
    fn a_token_is_void_when_it_is_older_than_the_latest_revocation() {
        let mut known = NotBefore::new(10);
        assert!(!known.is_void(user(1), 0, false));
        for not_before in [70, 50] {
            known.add(user(1), not_before);
        }
        let void = |user, issued| known.is_void(user, issued, false);
        assert_eq!([void(user(1), 69), void(user(1), 70), void(user(2), 0)], [true, false, false]);
    }

    #[test]
    fn a_stamp_of_the_future_is_good_for_users_who_ended_nothing_and_where_it_is_the_ends_own() {
        let mut known = NotBefore::new(10);
        known.add(user(1), 50);
        let void = |user, issued| known.is_void(user, issued, true);
        assert_eq!([void(user(1), 51), void(user(1), 50), void(user(2), 51)], [true, false, false]);
    }

    #[test]
    fn memory_is_bounded_and_no_revoked_token_becomes_good_again() {
        let mut known = NotBefore::new(100);
        for number in 1..=1_000 {
            known.add(user(number), number);
            assert!(known.users.len() <= 100, "{number}");
        }
        for number in 1..=1_000 {
            assert!(known.is_void(user(number), number - 1, false), "{number}");
            assert!(!known.is_void(user(number), number.max(known.everybody), false), "{number}");
        }
        // Of the others the old ones are void, too, and only those.
        let everybody = known.everybody;
        assert!((800..1_000).contains(&everybody), "{everybody}");
        assert!(known.is_void(user(5_000), everybody - 1, false));
        assert!(!known.is_void(user(5_000), everybody, false));
    }
}

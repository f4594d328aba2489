//! Logs once when a store stops answering, and once when it answers again: not once for each of
//! thousands of buyers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis_link::OutageEvent;
pub use redis_link::Redis;

use super::StoreError;
use super::source::UrlFile;
use crate::telemetry::News;

/// Whether PostgreSQL is away, as far as this process knows.
#[derive(Debug)]
pub(super) struct DatabaseOutage {
    is_on: AtomicBool,
    /// Whether the last ping found that it takes no writes: then no read that succeeds says that it is over.
    is_read_only: AtomicBool,
    /// What the log said of it last.
    said: News<String>,
    /// How often the server has answered.
    answers: AtomicU64,
}

impl DatabaseOutage {
    pub(super) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            said: News::after(String::new()),
            answers: AtomicU64::new(0),
        }
    }

    /// How often the server has answered: each request takes note of it when it begins.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Learns what keeps the server from being reached now, and says it once: a request only knows that it waited.
    pub(super) fn is_now(&self, error: &StoreError) {
        if self.is_on() && self.said.is(error.to_string()) {
            tracing::warn!(%error, "PostgreSQL cannot be reached");
        }
    }

    /// Learns from a request that had a connection. A refusal of the server says nothing: it is there, and may refuse
    /// some requests and not others (a disk that is full). A worker of several that is away is left to the circuit
    /// breakers of its vouchers. The request began when the server had given so many `answers`.
    pub(super) fn observe<T>(&self, answer: &Result<T, StoreError>, answers: u64) {
        match answer {
            Ok(_) => {
                self.answers.fetch_add(1, Ordering::Relaxed);
                self.is_over();
            }
            Err(error) if error.is_about_this_request() => {
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.outcome_unknown() => self.begins(error, answers),
            Err(_) => {}
        }
    }

    /// Learns from a ping, which finds out whether the server takes writes. Returns whether it does, and did not before.
    pub(super) fn observe_ping(&self, answer: &Result<(), StoreError>, answers: u64) -> bool {
        let is_read_only = answer.as_ref().is_err_and(StoreError::is_read_only);
        // A ping without an answer leaves what was known.
        let was_read_only = if is_read_only || answer.is_ok() {
            self.is_read_only.swap(is_read_only, Ordering::Relaxed)
        } else {
            false
        };
        match answer {
            Err(error) if is_read_only => self.begins(error, answers),
            answer => self.observe(answer, answers),
        }
        was_read_only && answer.is_ok()
    }

    /// Learns that the server cannot be reached, or takes no writes. A request that waited in vain while others were answered
    /// waited for a connection: all of them were in use.
    pub(super) fn begins(&self, error: &StoreError, answers: u64) {
        if error.is_silence() && self.answers() != answers {
            return;
        }
        if !self.is_on.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "PostgreSQL does not answer: buyers get 503 until it does");
        }
    }

    fn is_over(&self) {
        // The load is cheap, and nearly always false.
        if self.is_on()
            && !self.is_read_only.load(Ordering::Relaxed)
            && self.is_on.swap(false, Ordering::Relaxed)
        {
            self.said.is(String::new());
            tracing::info!("PostgreSQL answers again");
        }
    }
}

/// The server's handle on Redis, which the locks share: what was sent is never sent again. It connects when it is first
/// used, and tells when an outage begins and ends. If the URL stands in a `file`, its user and password are read again for each
/// new connection.
pub fn redis(url: &str, file: Option<UrlFile>) -> Result<Redis, StoreError> {
    let redis = match file {
        Some(file) => Redis::with_changing_login(url, move || file.url()),
        None => Redis::new(url),
    };
    Ok(redis?.on_outage(Arc::new(|event| match event {
        OutageEvent::Began(error) => {
            tracing::warn!(%error, "Redis does not answer: buyers get 503 until it does");
        }
        OutageEvent::Ended => tracing::info!("Redis answers again"),
    })))
}

/// Says in the log what no waiting mends: a user who may not send scripts, a wrong password.
pub async fn say_what_redis_refuses(redis: Redis) {
    if let Err(error) = redis.may_run_scripts().await
        && !error.retry_may_help()
    {
        tracing::error!(%error, "Redis refuses this server: no purchase and no login will succeed");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis_link::timeout::within;

    use super::*;
    use crate::store::Service;

    #[test]
    fn a_server_that_refuses_one_request_is_neither_away_nor_back() {
        let outage = DatabaseOutage::new();
        let refused =
            || Err::<(), _>(StoreError::unavailable(Service::Postgres, "the disk is full"));
        let silent = Err::<(), _>(StoreError::unknown(Service::Postgres, "no answer"));
        for (answer, is_on) in
            [(refused(), false), (silent, true), (refused(), true), (Ok(()), false)]
        {
            outage.observe(&answer, outage.answers());
            assert_eq!(outage.is_on(), is_on, "{answer:?}");
        }
        // While it takes no writes, no read that succeeds ends the outage.
        let read_only = Err(StoreError::read_only());
        assert!(!outage.observe_ping(&read_only, 0));
        outage.observe(&Ok(()), 0);
        assert!(outage.is_on());
        assert!(outage.observe_ping(&Ok(()), 0) && !outage.is_on());
    }

    /// What a request comes to that waits in vain.
    async fn silence() -> StoreError {
        let never = within(Duration::from_millis(1), std::future::pending::<()>()).await;
        let Err(timed_out) = never else { unreachable!("it never comes") };
        StoreError::unknown(Service::Postgres, timed_out)
    }

    #[tokio::test]
    async fn a_server_that_answers_others_meanwhile_is_not_away() {
        let outage = DatabaseOutage::new();
        let silent = silence().await;
        let connectionless = silent.clone().into_read_error();
        for (error, answers_others, is_on) in
            [(&silent, true, false), (&connectionless, true, false), (&silent, false, true)]
        {
            let began_at = outage.answers();
            if answers_others {
                outage.observe(&Ok(()), began_at);
            }
            outage.begins(error, began_at);
            assert_eq!(outage.is_on(), is_on, "{error}");
        }
        outage.observe(&Ok(()), 0);
        // A connection that breaks off is no silence.
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        outage.observe(&Err::<(), _>(StoreError::from(sqlx::Error::Io(reset))), 0);
        assert!(outage.is_on());
    }
}

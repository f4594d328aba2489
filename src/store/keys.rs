//! The names of all Redis keys, in one place.

use std::fmt::Display;
use std::sync::Arc;

use chrono::NaiveDate;

use super::payments::PaymentId;
use crate::model::UserId;

/// Names keys. The prefix is `SECKILL_KEY_PREFIX`, empty unless installations share a Redis; tests that share one
/// take a random one each.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: Arc<str>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::with_prefix("")
    }
}

impl Keys {
    /// Keys that all begin with `prefix`.
    pub fn with_prefix(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// What they all begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    fn name(&self, rest: impl Display) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// The lock under which one user's purchases run, one at a time.
    pub fn order_lock(&self, user: UserId) -> String {
        self.name(format_args!("lock:order:{user}"))
    }

    /// The counter of a day's orders, `icr:order:YYYY:MM:DD`.
    pub fn order_counter(&self, day: NaiveDate) -> String {
        self.name(format_args!("icr:order:{}", day.format("%Y:%m:%d")))
    }

    /// A login code and who asked for it. The braces put it into one slot of a cluster with the counters of
    /// wrong tries: one script has them all.
    pub fn login_code(&self, phone: &str) -> String {
        self.name(format_args!("login:code:{{{phone}}}"))
    }

    /// The number of wrong tries at all login codes of a phone.
    pub fn wrong_tries(&self, phone: &str) -> String {
        self.name(format_args!("login:wrong-tries:{{{phone}}}"))
    }

    /// The number of those that one address made.
    pub fn wrong_tries_from(&self, phone: &str, address: &str) -> String {
        self.name(format_args!("login:wrong-tries:{{{phone}}}:{address}"))
    }

    /// It exists while a server reaches the database.
    pub fn database_is_seen(&self) -> String {
        self.name("health:database")
    }

    /// What a buyer pressed on the page of the sandbox.
    pub fn sandbox_payment(&self, payment: PaymentId) -> String {
        self.name(format_args!("sandbox:payment:{payment}"))
    }

    /// The number of requests of one kind and one sender within a window.
    pub fn rate(&self, what: &str, who: &str) -> String {
        self.name(format_args!("rate:{what}:{who}"))
    }
}

//! The names of what the asynchronous rungs, the caches and the limits keep in Redis.

use std::fmt::Display;

/// The stream's name; the course that these rungs come from calls it so, too.
const STREAM: &str = "stream.orders";

/// Names the keys of stock, buyers and stream. They all begin with one prefix, so that runs which share
/// a Redis do not meet.
#[derive(Debug, Clone)]
pub struct QueueKeys {
    prefix: String,
}

impl QueueKeys {
    /// Keys that begin with `prefix`.
    pub fn with_prefix(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The stream of orders.
    pub fn stream(&self) -> String {
        format!("{}{STREAM}", self.prefix)
    }

    /// The stock of a voucher.
    pub fn stock(&self, voucher: impl Display) -> String {
        format!("{}seckill:stock:{voucher}", self.prefix)
    }

    /// That a voucher is sold out.
    pub fn sold_out(&self, voucher: impl Display) -> String {
        format!("{}seckill:sold_out:{voucher}", self.prefix)
    }

    /// How often a user has asked of late.
    pub fn rate(&self, user: impl Display) -> String {
        format!("{}seckill:rate:{user}", self.prefix)
    }

    /// The users who stand in line for a voucher, by their places.
    pub(super) fn line(&self, voucher: impl Display) -> String {
        format!("{}seckill:line:{voucher}", self.prefix)
    }

    /// The users whose admission token for a voucher is spent.
    pub(super) fn spent(&self, voucher: impl Display) -> String {
        format!("{}seckill:spent:{voucher}", self.prefix)
    }

    /// The users who have bought a voucher.
    pub(super) fn buyers(&self, voucher: impl Display) -> String {
        format!("{}seckill:order:{voucher}", self.prefix)
    }

    /// What each buyer of a voucher is told.
    pub(super) fn told(&self, voucher: impl Display) -> String {
        format!("{}seckill:told:{voucher}", self.prefix)
    }
}

//! A row of the registry: what a rung is, what it can do, and what it claims.

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::{
    Answer, Invariant, PaymentNotice, Purchase, Resources, RungError, Scenario, Work, WorkTurn,
};
use seckill::model::VoucherId;

/// A way to sell, right or wrong.
#[async_trait]
pub trait Design: Send + Sync {
    /// One attempt.
    ///
    /// # Errors
    /// When it came to no answer.
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError>;

    /// Makes ready what its consumer needs, before the first turn.
    ///
    /// # Errors
    /// When a server does not answer.
    async fn start_consumer(&self) -> Result<(), RungError> {
        Ok(())
    }

    /// One turn of its consumer: takes one entry, carries it out, acknowledges it.
    ///
    /// # Errors
    /// When the rung has no consumer; else when it failed. The next turn goes on.
    async fn write_next(&self, _work: &Work) -> Result<WorkTurn, RungError> {
        Err(RungError::Lacks("a consumer, and has none"))
    }

    /// What became of a purchase that was accepted; `None` where nobody knows of it. A rung that
    /// answers at once has no more to say: its order is in the database (r20, r21a: or is still to be
    /// written).
    ///
    /// # Errors
    /// When it came to no answer.
    async fn status(&self, _purchase: &Purchase) -> Result<Option<Answer>, RungError> {
        Ok(None)
    }

    /// The payment gateway has taken the money for an order. It says so again until it is answered.
    ///
    /// # Errors
    /// When its orders cost nothing; else when it failed.
    async fn pay(&self, _notice: &PaymentNotice, _work: &Work) -> Result<WorkTurn, RungError> {
        Err(RungError::Lacks("orders that have to be paid, and has none"))
    }

    /// Ends one order of `voucher` that was not paid in time, where it knows of one; draws the entries, or offers to the
    /// first in line.
    ///
    /// # Errors
    /// When its orders cost nothing; else when it failed. The next turn goes on.
    async fn expire(&self, _voucher: VoucherId, _work: &Work) -> Result<WorkTurn, RungError> {
        Err(RungError::Lacks("orders that have to be paid, and has none"))
    }

    /// An operator puts more of `voucher` on sale.
    ///
    /// # Errors
    /// When nothing stands between its stock and its buyers; else when it failed.
    async fn restock(
        &self,
        _voucher: VoucherId,
        _more: i32,
        _work: &Work,
    ) -> Result<WorkTurn, RungError> {
        Err(RungError::Lacks("a cache, and has none"))
    }

    /// Gives back what it holds.
    async fn shutdown(&self) {}
}

/// Where a rung keeps the lock that lets one request in at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// It has none: the database alone judges.
    NoLock,
    /// In the transaction that writes: the database keeps it, and it ends with that transaction.
    Database,
    /// In the memory of one process.
    Mutex,
    /// On so many independent Redis servers.
    Redis(usize),
    /// In ZooKeeper.
    ZooKeeper,
    /// It has none, and works with one Redis all the same: a script there decides, or a stream there
    /// carries on. A consumer does the rest after the buyer was answered.
    Stream,
}

/// When a lock ends that nobody gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseKind {
    /// Never, or with the process or the transaction that it is in.
    NoLease,
    /// After a fixed time, also while the holder works.
    Fixed,
    /// Some time after the holder has died or stopped: until then the holder renews it, and looks before
    /// the write whether it still has the lock.
    Renewed,
}

/// What a rung can do that others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// The release looks whose lock it is.
    CheckOwner,
    /// The holder may take the lock again: holds are counted.
    Reenter,
    /// Every grant of the lock has a number, and the database refuses the holder of an older one.
    Fence,
    /// A second request waits for the release; without this it is turned away.
    Wait,
    /// A majority of the lock's servers is enough; without this the holder needs all of them.
    Majority,
    /// A whole purchase is one step: it is production code, which has no pause points, or a part of a batch.
    OneStep,
    /// It locks the voucher's row while it reads it.
    LockRow,
    /// Its stock is in several rows.
    Segments,
    /// A Redis answers buyers who come too late.
    Cache,
    /// A change of the stock tells that cache after the write: deletes there, or writes.
    DeleteAgain,
    /// Its clients send again what was not answered.
    Retried,
    /// What was sold waits in the memory of a process until it is written.
    QueueInMemory,
    /// A consumer claims what another one left, counts how often, and gives up in the end.
    GiveUp,
    /// The database decides before the buyer is answered; a relay publishes what comes after.
    Relay,
    /// Its database is played with a standby that takes over.
    Standby,
    /// Its orders have to be paid within a time: it is told of payments, and ends what was not paid.
    Expire,
    /// A Redis counts the requests of each user, and lets in so many in a time.
    Rate,
    /// A Redis gives each user a place in line, and with it one admission token.
    Token,
    /// It is asked who wins: its sale is played with its buyers in one order, and in the other.
    Race,
    /// Its buyers enter, and time draws who wins.
    Draw,
    /// A buyer who finds nothing stands in line: time ends what was not paid, and offers it there.
    Line,
}

/// Whether the database would catch what the rung lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// No unique and no check constraint: the safety net would hide what is taught.
    Bare,
    /// The production tables.
    Guarded,
}

/// Builds a rung.
pub type Build = fn(Resources) -> BoxFuture<'static, Result<Box<dyn Design>, RungError>>;

/// One rung: what it is, and what it claims.
#[derive(Debug, Clone, Copy)]
pub struct Rung {
    /// The name, which is that of its file.
    pub id: &'static str,
    /// The file.
    pub source: &'static str,
    /// Its pages, in English and in Chinese.
    pub pages: [&'static str; 2],
    /// Makes one.
    pub build: Build,
    /// Its lock.
    pub lock: LockKind,
    /// When its lock ends by itself.
    pub lease: LeaseKind,
    /// What it can do.
    pub capabilities: &'static [Capability],
    /// Its tables.
    pub tables: Tables,
    /// The promises it keeps, whatever happens.
    pub claims: &'static [Invariant],
    /// Where it breaks the others.
    pub breaks: &'static [Scenario],
}

impl Rung {
    /// One of the four lines of its documentation: *Idea*, *Holds*, *Breaks when*, *Next*.
    pub fn line(&self, name: &str) -> String {
        let doc = self.source.lines().take_while(|line| line.starts_with("//!"));
        let text: Vec<&str> = doc.map(|line| line.trim_start_matches("//!").trim()).collect();
        let text = text.join(" ");
        let Some((_, rest)) = text.split_once(&format!("*{name}")) else { return String::new() };
        let rest = rest.trim_start_matches('.').trim_start_matches('*');
        let ends = ["*Idea", "*Holds", "*Breaks when", "*Next"].iter().filter_map(|m| rest.find(m));
        rest[..ends.min().unwrap_or(rest.len())].trim().to_owned()
    }

    /// Whether it can do this.
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// On how many servers its lock must be had.
    pub fn quorum(&self) -> usize {
        match self.lock {
            LockKind::Redis(servers) if self.can(Capability::Majority) => servers / 2 + 1,
            LockKind::Redis(servers) => servers,
            LockKind::ZooKeeper => 1,
            LockKind::NoLock | LockKind::Database | LockKind::Mutex | LockKind::Stream => 0,
        }
    }

    /// Whether a Redis is asked before the database, though it keeps no lock.
    pub fn asks_redis_first(&self) -> bool {
        [Capability::Cache, Capability::Rate, Capability::Token].iter().any(|it| self.can(*it))
    }

    /// Whether a consumer writes, or goes on, after the buyer was answered.
    pub fn has_consumer(&self) -> bool {
        self.lock == LockKind::Stream
    }

    /// Whether the database has decided when the buyer is answered; else Redis has, and a consumer writes later.
    pub fn decides_in_database(&self) -> bool {
        !self.has_consumer() || self.can(Capability::Relay)
    }

    /// Whether a purchase waits for a batch, and says so itself. The transaction that waits for a row is the batch's.
    pub fn waits_for_batch(&self) -> bool {
        self.lock == LockKind::Stream && self.can(Capability::OneStep)
    }

    /// Whether it claims to survive `scenario`.
    pub fn claims_to_survive(&self, scenario: Scenario) -> bool {
        self.claims.contains(&scenario.invariant()) || !self.breaks.contains(&scenario)
    }
}

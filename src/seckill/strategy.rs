//! What a strategy is, and the list of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::PurchaseError;
use super::catalog::Sale;
use super::gate::Pass;
use crate::model::{Outcome, UserId};

/// One attempt to buy that was not answered from memory.
#[derive(Debug)]
pub struct Request {
    /// Who buys.
    pub user: UserId,
    /// What, as the process knows it.
    pub sale: Arc<Sale>,
    /// When the attempt was admitted.
    pub at: DateTime<Utc>,
    /// What lets it be under way, once it is.
    pub pass: Option<Pass>,
}

/// A way to sell that keeps every promise of the product.
#[async_trait]
pub trait Strategy: Send + Sync + fmt::Debug {
    /// Sells, or says why not. The buyer may leave at any moment, and this is dropped: what
    /// writes to the database goes on to its end in a task of its own, and every lock is given
    /// back.
    ///
    /// # Errors
    /// See [`PurchaseError`].
    async fn purchase(self: Arc<Self>, request: Request) -> Result<Outcome, PurchaseError>;

    /// Waits until nothing of it is under way.
    async fn shutdown(&self);
}

/// The strategies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StrategyName {
    /// A lock per user, one statement per order.
    Locked,
    /// A lock per user; orders that wait go into one transaction. The default: as fast as
    /// `Locked` where a purchase comes alone, and several times as fast where many come.
    #[default]
    GroupCommit,
    /// The same without the lock: who clicks twice at once meets the database's constraint.
    GroupCommitUnlocked,
}

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {0:?}; there are: {names}", names = StrategyName::ALL.map(StrategyName::as_str).join(", "))]
pub struct UnknownStrategy(String);

impl StrategyName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Locked, Self::GroupCommit, Self::GroupCommitUnlocked];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::GroupCommit => "group-commit",
            Self::GroupCommitUnlocked => "group-commit-unlocked",
        }
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for StrategyName {
    type Err = UnknownStrategy;
    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.as_str() == name);
        found.ok_or_else(|| UnknownStrategy(name.to_owned()))
    }
}

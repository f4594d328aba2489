//! A row of the registry.

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::{Answer, Invariant, Purchase, Resources, RungError, Scenario, Work, WorkTurn};

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
    /// answers at once has no more to say: its order is in the database (r20, r21: or is still to be
    /// written).
    ///
    /// # Errors
    /// When it came to no answer.
    async fn status(&self, _purchase: &Purchase) -> Result<Option<Answer>, RungError> {
        Ok(None)
    }

    /// Gives back what it holds.
    async fn shutdown(&self) {}
}

/// How a rung lets one in at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// It does not: the database alone judges.
    None,
    /// In the memory of one process.
    Mutex,
    /// On so many independent Redis servers.
    Redis(usize),
    /// In ZooKeeper.
    ZooKeeper,
    /// It takes no lock, and works with one Redis all the same: a script there decides, or a
    /// stream there carries on.
    Stream,
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
    /// Makes one.
    pub build: Build,
    /// Its lock.
    pub lock: LockKind,
    /// Its tables.
    pub tables: Tables,
    /// The promises it keeps, whatever happens.
    pub claims: &'static [Invariant],
    /// Where it breaks the others.
    pub breaks: &'static [Scenario],
}

impl Rung {
    /// The number: 7 for `r07a_user_mutex_inside_tx`.
    pub fn number(&self) -> u32 {
        let digits = self.id.trim_start_matches('r');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().unwrap_or(0)
    }

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

    /// Whether its lock must be had on every one of its servers, not on a majority.
    pub fn needs_all_servers(&self) -> bool {
        self.id == "r14_multi_lock"
    }

    /// Whether it answers first and writes, or goes on, later.
    pub fn has_consumer(&self) -> bool {
        self.lock == LockKind::Stream
    }

    /// Whether it claims to survive `scenario`.
    pub fn claims_to_survive(&self, scenario: Scenario) -> bool {
        self.claims.contains(&scenario.invariant()) || !self.breaks.contains(&scenario)
    }
}

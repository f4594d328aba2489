//! Messages to the payment gateway and to phones are rows of `messages`: any server claims a message, sends it, and writes what became of it. A claim
//! ends by itself, so that a server that dies delays a message and loses nothing. So a message may come twice; its receiver
//! gets the same name each time.
//!
//! Each receiver has a channel, and a worker of its own: one that is away delays no other.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt};
use rand::RngExt;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::PaymentGateway;
use super::gateway_messages::ToGateway;
use crate::purchase::Purchases;
use crate::store::messages::{self, Channel, MessageId};
use crate::store::{Database, StoreError, order_steps};
use crate::worker::{Chore, Worker};

/// Messages that are looked for at once.
const LOOK_FOR: i64 = 100;
/// Messages that are under way at once.
const AT_ONCE: usize = 8;
/// How long a server has a message to itself: longer than a receiver takes to answer.
const CLAIM: Duration = Duration::from_secs(30);
/// The pause after the first failure. It doubles with each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Of what a receiver said, so much is kept, in characters.
const MAX_ERROR: usize = 500;

/// Why a message was not sent.
#[derive(Debug)]
pub enum Unsent {
    /// The receiver did not take it, and said this.
    NotTaken(String),
    /// The database does not answer: the claim ends by itself.
    Failed(StoreError),
}

impl From<StoreError> for Unsent {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// The receiver of one channel's messages.
pub trait Receiver: Clone + Send + Sync + 'static {
    /// The channel that it receives.
    const CHANNEL: Channel;

    /// Sends a message, and writes what follows if it is taken. Returns whether this call ended it.
    fn send(&self, message: MessageId) -> impl Future<Output = Result<bool, Unsent>> + Send;

    /// Says in the log that a message was not taken at this attempt, and why. Returns how long it waits; `None`: it is not
    /// sent again.
    fn pause(&self, message: MessageId, attempt: i32, said: &str) -> Option<Duration>;

    /// Before each look: tells the metrics how much waits.
    fn measure(&self, _now: DateTime<Utc>) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Sends the messages of one channel.
#[derive(Debug, Clone)]
pub struct Outbox<R> {
    database: Database,
    receiver: R,
    /// Held while a message is claimed, or what became of it is written, on a connection of the readers. It may wait for a
    /// table that another session locks: the readers keep the other connections.
    writing: Arc<Mutex<()>>,
}

/// The database's clock, read once, and then carried on by this machine's.
#[derive(Debug, Clone, Copy)]
struct Now {
    then: DateTime<Utc>,
    begun: Instant,
}

impl Now {
    fn plus(self, more: Duration) -> DateTime<Utc> {
        let later = TimeDelta::from_std(self.begun.elapsed() + more).unwrap_or(TimeDelta::MAX);
        self.then.checked_add_signed(later).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

impl Outbox<ToGateway> {
    /// Of payments in `database`, to `gateway`; `purchases` is told of what comes back on sale.
    pub fn of_gateway(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Arc<dyn PaymentGateway>,
    ) -> Self {
        let receiver = ToGateway::new(database.clone(), purchases, gateway);
        Self::new(database, receiver)
    }
}

impl<R: Receiver> Outbox<R> {
    /// Of messages in `database`.
    pub fn new(database: Database, receiver: R) -> Self {
        Self { database, receiver, writing: Arc::default() }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Tries what is due now, up to a hundred messages. Returns how many it found, and how many are done.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn step(&self) -> Result<(usize, usize), StoreError> {
        let pool = self.database.pool();
        let now = Now { then: order_steps::time(pool).await?, begun: Instant::now() };
        self.receiver.measure(now.then).await;
        let due = messages::list_due(pool, R::CHANNEL, now.then, LOOK_FOR).await?;
        let found = due.len();
        let tries = due.into_iter().map(|message| self.try_once(message, now));
        let tried: Vec<_> = stream::iter(tries).buffer_unordered(AT_ONCE).collect().await;
        let mut done = 0;
        for is_done in tried {
            done += usize::from(is_done?);
        }
        Ok((found, done))
    }

    /// Whether this call ended the message.
    async fn try_once(&self, message: MessageId, now: Now) -> Result<bool, StoreError> {
        let one = self.writing.lock().await;
        let (from, until) = (now.plus(Duration::ZERO), now.plus(CLAIM));
        let claimed = messages::claim(self.database.pool(), message, from, until).await?;
        drop(one);
        let Some(attempt) = claimed else { return Ok(false) };
        let (is_done, said, next) = match self.receiver.send(message).await {
            Ok(is_done) => (is_done, None, None),
            Err(Unsent::Failed(error)) => return Err(error),
            Err(Unsent::NotTaken(said)) => {
                let pause = self.receiver.pause(message, attempt, &said);
                let said = said.chars().take(MAX_ERROR).collect::<String>();
                (false, Some(said), pause.map(|pause| now.plus(pause)))
            }
        };
        let _one = self.writing.lock().await;
        messages::record(self.database.pool(), message, attempt, said.as_deref(), next).await?;
        Ok(is_done)
    }
}

impl<R: Receiver> Chore for Outbox<R> {
    async fn step(&mut self) -> Result<bool, StoreError> {
        let (found, _) = Self::step(self).await?;
        Ok(found >= LOOK_FOR as usize)
    }
}

/// How long to wait after so many attempts, give or take a quarter: not all of them at one moment.
pub(crate) fn pause_after(attempts: i32) -> Duration {
    let doublings = attempts.clamp(1, 20).unsigned_abs() - 1;
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.mul_f64(rand::rng().random_range(0.75..1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_five_minutes() {
        for (attempts, expected_s) in [(1, 1), (2, 2), (9, 256), (10, 300), (i32::MAX, 300)] {
            let pause = pause_after(attempts).as_secs_f64() / f64::from(expected_s);
            assert!((0.75..1.25).contains(&pause), "{attempts}: {pause}");
        }
    }
}

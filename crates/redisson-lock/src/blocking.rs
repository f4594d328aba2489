//! The lock for threads: what waits blocks its thread. What is not here goes through [`Blocking::wait`].
//!
//! ```no_run
//! use redisson_lock::LockOptions;
//! use redisson_lock::blocking::BlockingClient;
//! use redisson_lock::connection::Redis;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = BlockingClient::new(Redis::new("redis://127.0.0.1/")?, LockOptions::default())?;
//!     let lock = locks.lock("invoice:7").with(|lock| lock.fenced());
//!     let guard = lock.acquire()?;
//!     println!("the token is {:?}", guard.fence());
//!     guard.release()?;
//!     println!("held: {}", locks.wait(lock.state())?.is_some());
//!     locks.shutdown();
//!     Ok(())
//! }
//! ```

use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use super::error::LockError;
use super::options::LockOptions;
use redis_link::Redis;

/// A [`LockClient`](super::LockClient) whose calls block.
pub type BlockingClient = Blocking<super::LockClient>;
/// A [`Lock`](super::Lock) whose calls block.
pub type BlockingLock = Blocking<super::Lock>;
/// A [`Guard`](super::Guard) whose release blocks. Dropped, it gives the lock back in the background.
pub type BlockingGuard = Blocking<super::Guard>;

/// A part of the asynchronous interface, with all that it can be asked, whose calls block their thread.
///
/// # Panics
/// Each call in an asynchronous task, which would keep its runtime from working; and there the drop of the last part
/// of a client that has a runtime of its own ([`BlockingClient::new`]).
#[derive(Debug, Clone)]
#[must_use = "a lock is only a description until it is acquired, and is given back when its guard is dropped"]
pub struct Blocking<T> {
    part: T,
    runtime: Handle,
    /// The last part that has it ends it.
    own: Option<Arc<Runtime>>,
}

impl<T> Blocking<T> {
    /// Blocks until a future of this crate is done, such as that of [`MultiLock::acquire`](super::MultiLock::acquire).
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn with_part<U>(&self, part: U) -> Blocking<U> {
        Blocking { part, runtime: self.runtime.clone(), own: self.own.clone() }
    }
}

impl<T> Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl BlockingClient {
    /// A client with a runtime of its own, of one thread. It ends with the last clone and guard; call
    /// [`BlockingClient::shutdown`] before, or what was dropped is left to its lease.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn new(redis: Redis, options: LockOptions) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let own = Self::on(runtime.handle().clone(), redis, options);
        Ok(Self { own: Some(Arc::new(runtime)), ..own })
    }

    /// A client on a runtime with threads of its own (`multi_thread`), which renews the leases. One of the kind
    /// `current_thread` does nothing unless some thread is in its `block_on`.
    pub fn on(runtime: Handle, redis: Redis, options: LockOptions) -> Self {
        let entered = runtime.enter();
        let part = super::LockClient::new(redis, options);
        drop(entered);
        Self { part, runtime, own: None }
    }

    /// As [`LockClient::prefixed`](super::LockClient::prefixed).
    pub fn prefixed(&self, prefix: &str) -> Self {
        self.with_part(self.part.prefixed(prefix))
    }

    /// As [`LockClient::lock`](super::LockClient::lock).
    pub fn lock(&self, name: impl Into<String>) -> BlockingLock {
        self.with_part(self.part.lock(name))
    }

    /// As [`LockClient::shutdown`](super::LockClient::shutdown).
    pub fn shutdown(&self) {
        self.wait(self.part.shutdown());
    }
}

impl BlockingLock {
    /// With what a [`Lock`](super::Lock) can be asked for: `lock.with(|lock| lock.fair())`.
    pub fn with(mut self, more: impl FnOnce(super::Lock) -> super::Lock) -> Self {
        self.part = more(self.part);
        self
    }

    /// As [`Lock::try_acquire`](super::Lock::try_acquire).
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire(&self) -> Result<Option<BlockingGuard>, LockError> {
        Ok(self.wait(self.part.try_acquire())?.map(|guard| self.with_part(guard)))
    }

    /// As [`Lock::acquire`](super::Lock::acquire).
    ///
    /// # Errors
    /// The same.
    pub fn acquire(&self) -> Result<BlockingGuard, LockError> {
        Ok(self.with_part(self.wait(self.part.acquire())?))
    }

    /// As [`Lock::acquire_within`](super::Lock::acquire_within).
    ///
    /// # Errors
    /// The same.
    pub fn acquire_within(&self, limit: Duration) -> Result<Option<BlockingGuard>, LockError> {
        Ok(self.wait(self.part.acquire_within(limit))?.map(|guard| self.with_part(guard)))
    }
}

impl BlockingGuard {
    /// As [`Guard::release`](super::Guard::release).
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), LockError> {
        self.runtime.block_on(self.part.release())
    }
}

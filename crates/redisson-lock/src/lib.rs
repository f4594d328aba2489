//! A distributed lock on Redis, exchangeable with Redisson's `RLock`: a Java service and
//! this program exclude each other on one name. A library in itself; it knows nothing of
//! vouchers. `docs/locks.md` explains the design, its guarantees and its limits.
//!
//! # Ways to use it
//!
//! Try once; somebody else's holding is an answer, not an error:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redisson_lock::{LockClient, LockOptions};
//! use redisson_lock::connection::Redis;
//!
//! let locks = LockClient::new(Redis::new("redis://127.0.0.1/")?, LockOptions::default());
//! match locks.lock("invoice:7").try_acquire().await? {
//!     Some(guard) => {
//!         // The work.
//!         guard.release().await?;
//!     }
//!     None => println!("somebody else holds it"),
//! }
//! locks.shutdown().await; // everything given back
//! # Ok(())
//! # }
//! ```
//!
//! Wait, with a limit or without, asleep until the holder leaves:
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! use std::time::Duration;
//!
//! let lock = locks.lock("invoice:7");
//! if let Some(guard) = lock.acquire_within(Duration::from_secs(5)).await? {
//!     guard.release().await?;
//! }
//! let guard = lock.acquire().await?;
//! drop(guard); // gives it back in the background, in a panic, too
//! # Ok(())
//! # }
//! ```
//!
//! Stop the work when the lock is lost, for example because Redis was away for longer than
//! the lease:
//!
//! ```no_run
//! # async fn work() {}
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! let guard = locks.lock("invoice:7").acquire().await?;
//! tokio::select! {
//!     () = work() => guard.release().await?,
//!     () = guard.lost().cancelled() => eprintln!("lost after all: the work was stopped"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Enter again while holding it. Tasks change threads and share them, so an owner is a
//! value: who has it may enter again, who has not may not.
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! let owner = locks.owner();
//! let lock = locks.lock("invoice:7").owned_by(&owner);
//! let outer = lock.acquire().await?;
//! let inner = lock.acquire().await?; // the second hold, not a deadlock
//! inner.release().await?;
//! outer.release().await?; // now it is free
//! # Ok(())
//! # }
//! ```
//!
//! First come, first served, also among other processes and Redisson's `RFairLock`:
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! let guard = locks.lock("invoice:7").fair().acquire().await?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A lease that is never renewed, for work that must be over by then:
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! use std::time::Duration;
//!
//! use redisson_lock::Lease;
//!
//! let lock = locks.lock("invoice:7").lease(Lease::Fixed(Duration::from_secs(10)));
//! let guard = lock.acquire().await?;
//! assert!(guard.validity() <= Duration::from_secs(10));
//! # Ok(())
//! # }
//! ```
//!
//! A fencing token, for a store that is to refuse a holder who slept past its lease:
//!
//! ```no_run
//! # async fn execute(sql: &str, token: u64) -> Result<u64, std::io::Error> { Ok(1) }
//! # async fn example(
//! #     locks: redisson_lock::LockClient,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let guard = locks.lock("invoice:7").fenced().acquire().await?;
//! let token = guard.fence().ok_or("asked for above")?;
//! let sql = "update invoices set state = 'sent', fence = $1 where id = 7 and fence < $1";
//! let rows = execute(sql, token).await?; // by any database client
//! assert_eq!(rows, 1, "somebody else has had the lock since");
//! # Ok(())
//! # }
//! ```
//!
//! Grants that a failover cannot forget unless it promotes a replica that never had them:
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! use std::time::Duration;
//!
//! let lock = locks.lock("invoice:7").acknowledged_by(1, Duration::from_millis(100));
//! let guard = lock.acquire().await?; // NotReplicated when no replica has it in time
//! # Ok(())
//! # }
//! ```
//!
//! Look, and as a last resort, break it open:
//!
//! ```no_run
//! # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
//! let lock = locks.lock("invoice:7");
//! if let Some(state) = lock.state().await? {
//!     println!("{} holds it {} times, for {:?} yet", state.owner, state.holds, state.remaining);
//!     lock.force_release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What holds, and how
//!
//! * **The lease is renewed** every third of it while the guard lives ([`Lease::Renewed`]),
//!   or never ([`Lease::Fixed`]). A killed process holds a lock for one lease at most. A
//!   renewal never creates a lock and never lengthens somebody else's.
//! * **Loss is announced** through [`Guard::lost`], at the latest at the deadline counted
//!   from *before* the last successful renewal was sent; [`Guard::is_lost`] looks at the
//!   clock itself.
//! * **Waiting costs no polling** and loses no wake-up: one connection per client hears of
//!   releases; a waiter tries again after its subscription is confirmed, and whenever that
//!   connection is lost. The waiters of a process stand in line; those of a fair lock stand in Redis.
//! * **Nothing is left behind**: a dropped acquire and a dropped guard hand their hold to a
//!   clean-up worker, which is armed before the command is sent. [`LockClient::shutdown`]
//!   is the barrier after which all is given back.
//! * **Release is checked**: giving back what one does not hold is an error. An owner who
//!   may enter more than once has a record in Redis of its grants, so that each is given
//!   back once, however often that is sent, and only while it is held: neither a lost
//!   answer nor a guard that outlived its lease costs a hold that another guard has.
//! * **Doubt is told**: an error with [`LockError::outcome_unknown`] means that the lock
//!   may have been granted. It is given back.
//! * **Several as one**: all of several locks ([`MultiLock`]), or one lock on the majority of
//!   independent servers ([`RedLock`]).
//!
//! What a lock on one Redis cannot promise (a failover, a holder that sleeps past its
//! lease) a fencing token or the database's constraints must.

mod acquire;
mod calls;
mod channels;
mod cleanup;
#[cfg(feature = "cli")]
pub mod cli;
mod client;
pub mod connection;
mod error;
mod fair_place;
mod group;
mod guard;
mod handle;
mod listener;
pub mod metric;
mod multi;
mod options;
mod outage;
mod owner;
mod redlock;
mod script_claim;
mod scripts;
mod shared;
mod survey;
pub mod timeout;
mod waiters;
mod watchdog;

pub use client::LockClient;
pub use error::LockError;
pub use guard::Guard;
pub use handle::Lock;
pub use multi::{MultiGuard, MultiLock};
pub use options::{Acknowledged, Lease, LockOptions, LockState};
pub use owner::Owner;
pub use redlock::{QuorumGuard, QuorumLock, RedLock, RedLockOptions};
pub use script_claim::ScriptClaim;
pub use scripts::ACQUIRE_LUA;
pub use survey::Survey;

//! A reentrant lock on one Redis, with the layout of Redisson's `RLock`, so that a Java
//! service and this program exclude each other on one name.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use seckill::lock::{LockClient, LockOptions};
//! use seckill::store::Redis;
//!
//! let locks = LockClient::new(Redis::new("redis://127.0.0.1/")?, LockOptions::default());
//! match locks.lock("lock:order:1").try_acquire().await? {
//!     Some(guard) => {
//!         // The work. `guard.lost()` resolves if the lease is lost meanwhile.
//!         guard.release().await?;
//!     }
//!     None => println!("somebody else holds it"),
//! }
//! locks.shutdown().await; // everything given back
//! # Ok(())
//! # }
//! ```
//!
//! What holds, and how:
//!
//! * **Owners are values** ([`Owner`]): tasks change threads, so neither a thread nor a
//!   task can stand for who holds a lock. Who has the owner (or the guard) may re-enter.
//! * **The lease is renewed** every third of it while the guard lives ([`Lease::Renewed`]),
//!   or never ([`Lease::Fixed`]). A killed process holds a lock for one lease at most.
//! * **Loss is announced** through [`Guard::lost`], at the latest at the deadline counted
//!   from *before* the last successful renewal was sent.
//! * **Nothing is left behind**: a dropped acquire and a dropped guard hand their hold to a
//!   clean-up worker, which is armed before the command is sent.
//! * **Release is checked**: giving back what one does not hold is an error. An owner who
//!   may enter more than once has a record in Redis of its grants, so that each is given
//!   back once, however often that is sent, and only while it is held: neither a lost
//!   answer nor a guard that outlived its lease costs a hold that another guard has.
//!
//! What a lock on one Redis cannot promise (a failover, a holder that sleeps past its
//! lease) the database's constraints must.

mod acquire;
mod cleanup;
mod client;
mod error;
mod guard;
mod handle;
mod owner;
mod scripts;
mod wakeups;
mod watchdog;

pub use client::{Lease, LockClient, LockOptions};
pub use error::LockError;
pub use guard::Guard;
pub use handle::{Acknowledged, Lock, LockState};
pub use owner::Owner;

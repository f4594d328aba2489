#![doc = include_str!("../README.md")]
#![doc = include_str!("../FAILURES.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order. One try and its release: handle, acquire_target, acquire, calls, scripts, guard, cleanup, watchdog.
// A wait: wait, waiters, channels, listener, fair_place. Several locks as one: group, multi, redlock.

mod acquire;
mod acquire_alone;
mod acquire_target;
#[cfg(feature = "blocking")]
#[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
pub mod blocking;
mod calls;
mod channels;
mod claim;
mod cleanup;
#[cfg(feature = "cli")]
#[cfg_attr(docsrs, doc(cfg(feature = "cli")))]
pub mod cli;
mod client;
mod error;
mod fair_place;
#[cfg(feature = "fake")]
#[cfg_attr(docsrs, doc(cfg(feature = "fake")))]
pub mod fake;
mod group;
mod guard;
mod handle;
mod listener;
pub mod metric;
mod multi;
mod options;
mod outage_clock;
mod owner;
mod reconnect;
mod redisson_names;
mod redlock;
mod renewals;
mod scripts;
mod shared;
mod survey;
mod validity;
mod wait;
mod waiters;
mod watchdog;

pub use client::LockClient;
pub use error::LockError;
pub use guard::Guard;
pub use handle::Lock;
pub use multi::{MultiGuard, MultiLock};
pub use options::{Lease, LockOptions, LockState};
pub use owner::Owner;
/// The connections that the locks go over.
pub use redis_link as connection;
pub use redlock::{QuorumGuard, QuorumLock, RedLock, RedLockOptions};
pub use survey::Survey;
// For `ceiling`, which times the script alone.
#[cfg(feature = "__scripts")]
#[doc(hidden)]
pub use scripts::ACQUIRE_LUA;

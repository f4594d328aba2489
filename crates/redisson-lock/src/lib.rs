#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order. One try and its release: handle, acquire_target, acquire, calls, scripts, guard, cleanup, watchdog.
// A wait: wait, waiters, channels, listener, fair_place. Several locks as one: group, multi, redlock.

mod acquire;
mod acquire_alone;
mod acquire_target;
mod calls;
mod channels;
mod claim;
mod cleanup;
#[cfg(feature = "cli")]
#[cfg_attr(docsrs, doc(cfg(feature = "cli")))]
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
mod outage_clock;
mod owner;
mod redisson_names;
mod redlock;
mod script_claim;
mod scripts;
mod shared;
mod survey;
pub mod timeout;
mod wait;
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
pub use survey::Survey;
// For programs that run the scripts themselves: the laboratory plays them, `ceiling` times one.
#[doc(hidden)]
pub use {script_claim::ScriptClaim, scripts::ACQUIRE_LUA};

//! The ladder: designs that somebody really ships, one file each, from "read the stock, write
//! it back" to a group commit. Each is complete in itself, so that neighbours can be diffed;
//! each has a flaw, which the next one mends. `docs/ladder.md` walks it; the lab proves every
//! claim made here, and every break.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod claims;
mod entry;
mod purchase;
mod r01_naive;
mod r02_row_lock;
mod r03_version_cas;
mod r04_stock_guard;
mod r05_check_then_insert;
mod r06_global_mutex;
mod r07a_user_mutex_inside_tx;
mod r07b_user_mutex;
mod r08a_setnx;
mod r08b_setnx_expire;
mod r09_set_nx_px;
mod r10_owner_check;
mod r11_lua_release;
mod r12_reentrant;
mod r13_watchdog;
mod r14_multi_lock;
mod r15_redlock;
mod r16_fencing;
mod r17_zookeeper;
mod r18_constraints;
mod r19_group_commit;
mod r20_lua_and_queue;
mod r21_lua_and_stream;
mod r22_stream_done_right;
mod r23_outbox;
mod resources;
mod rung;
mod user_mutexes;
mod work;

pub use claims::{Invariant, Scenario, UnknownName};
pub use entry::{GROUP, STREAM};
pub use purchase::{Answer, Director, Point, Purchase, RungError};
pub use resources::Resources;
pub use rung::{Build, Design, LockKind, Rung, Tables};
pub use work::{Work, WorkTurn};

use Invariant::*;
use LockKind::{Mutex, Redis, Stream};
use Scenario::*;
use Tables::{Bare, Guarded};

/// The registry: `file: lock, tables, keeps […], breaks in […]`.
macro_rules! rungs {
    ($($id:ident: $lock:expr, $tables:expr, keeps $claims:expr, breaks $breaks:expr;)+) => {
        /// The ladder, rung by rung.
        pub const RUNGS: &[Rung] = &[$(Rung {
            id: stringify!($id),
            source: include_str!(concat!(stringify!($id), ".rs")),
            build: |resources| Box::pin($id::build(resources)),
            lock: $lock,
            tables: $tables,
            claims: &$claims,
            breaks: &$breaks,
        }),+];
    };
}

// A promise that is kept is kept in every scenario. Of the others each scenario that breaks
// them is named; the lab fails when one of those does not, and when any other does.
rungs! {
    r01_naive: LockKind::None, Bare, keeps [NoUndersell], breaks [LastOne, DoubleClick, TwoNodes];
    r02_row_lock: LockKind::None, Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r03_version_cas: LockKind::None, Bare, keeps [NoOversell], breaks [Herd, DoubleClick, TwoNodes];
    r04_stock_guard: LockKind::None, Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r05_check_then_insert: LockKind::None, Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r06_global_mutex: Mutex, Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, Nested];
    r07a_user_mutex_inside_tx: Mutex, Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, EarlyRelease, Nested];
    r07b_user_mutex: Mutex, Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, Nested];
    r08a_setnx: Redis(1), Bare, keeps [NoOversell, NoUndersell], breaks [HolderDies, Nested, Failover, Amnesia];
    r08b_setnx_expire: Redis(1), Bare, keeps [NoOversell, NoUndersell], breaks [DiesBetween, SlowHolder, OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump];
    r09_set_nx_px: Redis(1), Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [SlowHolder, OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump];
    r10_owner_check: Redis(1), Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [OutlivedLease, StalledRelease, Nested, PausedHolder, Failover, Amnesia, ClockJump];
    r11_lua_release: Redis(1), Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump];
    r12_reentrant: Redis(1), Bare, keeps [NoOversell, NoUndersell, NoLockout, NoDeadlock], breaks [OutlivedLease, PausedHolder, Failover, Amnesia, ClockJump, ResentRelease];
    r13_watchdog: Redis(1), Bare, keeps [NoOversell, NoUndersell, NoLockout, NoDeadlock], breaks [PausedHolder, Failover, Amnesia, ClockJump];
    r14_multi_lock: Redis(3), Bare, keeps [NoOversell, NoLockout, NoDeadlock], breaks [NodeDown, PausedHolder];
    r15_redlock: Redis(3), Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [Nested, Amnesia, ClockJump, PausedHolder];
    r16_fencing: Redis(1), Bare, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout, NoDeadlock], breaks [];
    r17_zookeeper: LockKind::ZooKeeper, Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [Nested, PausedHolder];
    r18_constraints: LockKind::None, Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [];
    r19_group_commit: Redis(1), Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout], breaks [];
    r20_lua_and_queue: Stream, Bare, keeps [], breaks [UpdateIgnored, RedisRestored, QueueFull, DiesWithLast, FullQueueDies, DiesBeforeWrite];
    r21_lua_and_stream: Stream, Bare, keeps [], breaks [UpdateIgnored, RedisRestored, DiesBeforeAck, ConnectionLost, OneConsumerName, DiesWithLast, DiesBeforeWrite, PoisonEntry, GroupFromNow, StreamTrimmed, RedisDies, ReplicaLags];
    r22_stream_done_right: Stream, Guarded, keeps [NoOversell, OnePerUser], breaks [GivenUp, RedisDies, ReplicaLags];
    r23_outbox: Stream, Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoBrokenPromise], breaks [];
}

/// The rung with this id, or the only one whose id begins so.
///
/// # Errors
/// When there is none, or more than one.
pub fn find(name: &str) -> Result<&'static Rung, UnknownName> {
    let exact = RUNGS.iter().find(|rung| rung.id == name);
    let mut alike = RUNGS.iter().filter(|rung| rung.id.starts_with(name));
    match (exact, alike.next(), alike.next()) {
        (Some(rung), ..) | (None, Some(rung), None) => Ok(rung),
        _ => Err(UnknownName::new(name, RUNGS.iter().map(|rung| rung.id))),
    }
}

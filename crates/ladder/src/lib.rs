//! The course: designs of a flash sale that somebody really ships, one file each, from "read the stock,
//! write it back" to the group commit that production uses. Each design is complete in its file, so that
//! neighbours can be diffed. Most have a flaw; the next one mends it, or only moves it. `docs/ladder.md`
//! walks the course; the lab proves every claim made here, and every break.
//!
//! In reading order: the registry below; `rung`, what a row says; `pages`, what its author says of it; `claims`,
//! promises and scenarios; `purchase` and `work`, what a design is given and answers; `detail`, what it says on
//! the way; `resources`, what it works with; then the rungs by their numbers, with what some of them share: `user_mutexes`, `entry`, `queue_keys`, `line`.

// A purchase under a lock on several servers is a future of many futures: proving it `Send`
// takes the compiler deeper than its default of 128.
#![recursion_limit = "256"]

mod answer;
mod claims;
mod detail;
mod entry;
mod line;
mod pages;
mod purchase;
mod queue_keys;
mod r01_naive;
mod r02_row_lock;
mod r03_version_cas;
mod r04_stock_guard;
mod r05a_check_then_insert;
mod r05b_advisory_lock;
mod r06_global_mutex;
mod r07a_user_mutex_inside_tx;
mod r07b_user_mutex;
mod r08a_setnx;
mod r08b_setnx_expire;
mod r09_set_nx_px;
mod r10_owner_check;
mod r11_lua_release;
mod r12_reentrant;
mod r13a_renewal;
mod r13b_wakeup;
mod r13c_resent_release;
mod r13d_redisson_lock;
mod r14_multi_lock;
mod r15_redlock;
mod r16_fencing;
mod r17_zookeeper;
mod r18a_constraints;
mod r18b_stock_segments;
mod r18c_all_segments;
mod r19_group_commit;
mod r20_lua_and_queue;
mod r21a_lua_and_stream;
mod r21b_stream_from_now;
mod r21c_unchecked_consumer;
mod r21d_batched_consumer;
mod r22_stream_done_right;
mod r23a_outbox;
mod r23b_batched_outbox;
mod r24_expire_by_timer;
mod r25_expire_by_condition;
mod r26a_cached_stock;
mod r26b_delayed_double_delete;
mod r26c_sold_out_for_a_second;
mod r26d_write_then_delete;
mod r26e_versioned_fill;
mod r27a_retry;
mod r27b_request_key;
mod r28a_fixed_window;
mod r28b_token_bucket;
mod r28c_redis_time;
mod r29a_admission_token;
mod r29b_spent_token;
mod r30a_first_come;
mod r30b_draw;
mod r31a_line_by_check;
mod r31b_line_by_condition;
mod resources;
mod rung;
mod user_mutexes;
mod work;

pub use answer::Answer;
pub use claims::{Invariant, Scenario, UnknownName};
pub use detail::{Awaited, Detail};
pub use entry::GROUP;
pub use pages::{Lesson, lessons, parts};
pub use purchase::{Director, Point, PointStore, Purchase, RungError};
pub use queue_keys::QueueKeys;
pub use r18b_stock_segments::SEGMENTS;
pub use r28a_fixed_window::{LIMIT, WINDOW};
pub use resources::Resources;
pub use rung::{Build, Capability, Design, LeaseKind, LockKind, Rung, Tables};
pub use work::{PaymentNotice, Work, WorkTurn};

use Capability::*;
use Invariant::*;
use LeaseKind::*;
use LockKind::*;
use Scenario::*;
use Tables::{Bare, Guarded};

/// The registry: `file: lock, lease, can […], tables, keeps […], breaks in […]`.
macro_rules! rungs {
    ($($id:ident: $lock:expr, $lease:expr, can $can:expr, $tables:expr, keeps $claims:expr, breaks $breaks:expr;)+) => {
        /// The ladder, rung by rung.
        pub const RUNGS: &[Rung] = &[$(Rung {
            id: stringify!($id),
            source: include_str!(concat!(stringify!($id), ".rs")),
            pages: [
                include_str!(concat!("../../../docs/ladder/", stringify!($id), ".md")),
                include_str!(concat!("../../../docs/ladder/", stringify!($id), ".zh-CN.md")),
            ],
            build: |resources| Box::pin($id::build(resources)),
            lock: $lock,
            lease: $lease,
            capabilities: &$can,
            tables: $tables,
            claims: &$claims,
            breaks: &$breaks,
        }),+];
    };
}

// A promise that is kept is kept in every scenario. Of the others each scenario that breaks
// them is named; the lab fails when one of those does not, and when any other does.
rungs! {
    r01_naive: NoLock, NoLease, can [], Bare, keeps [NoUndersell], breaks [LastOne, DoubleClick, TwoNodes];
    r02_row_lock: NoLock, NoLease, can [LockRow], Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r03_version_cas: NoLock, NoLease, can [], Bare, keeps [NoOversell], breaks [Herd, DoubleClick, TwoNodes];
    r04_stock_guard: NoLock, NoLease, can [], Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r05a_check_then_insert: NoLock, NoLease, can [], Bare, keeps [NoOversell, NoUndersell], breaks [DoubleClick, TwoNodes];
    r05b_advisory_lock: Database, NoLease, can [Wait], Bare, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout], breaks [Nested];
    r06_global_mutex: Mutex, NoLease, can [Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, Nested];
    r07a_user_mutex_inside_tx: Mutex, NoLease, can [Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, EarlyRelease, Nested];
    r07b_user_mutex: Mutex, NoLease, can [Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [TwoNodes, Nested];
    r08a_setnx: Redis(1), NoLease, can [], Bare, keeps [NoOversell, NoUndersell], breaks [HolderDies, Nested, Failover, Amnesia, NodeDown];
    r08b_setnx_expire: Redis(1), Fixed, can [], Bare, keeps [NoOversell, NoUndersell], breaks [DiesBetween, SlowHolder, OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r09_set_nx_px: Redis(1), Fixed, can [], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [SlowHolder, OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r10_owner_check: Redis(1), Fixed, can [CheckOwner], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [OutlivedLease, StalledRelease, Nested, PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r11_lua_release: Redis(1), Fixed, can [CheckOwner], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [OutlivedLease, Nested, PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r12_reentrant: Redis(1), Fixed, can [CheckOwner, Reenter], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [OutlivedLease, PausedHolder, Failover, Amnesia, ClockJump, ResentRelease, NodeDown];
    r13a_renewal: Redis(1), Renewed, can [CheckOwner, Reenter], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [PausedHolder, Failover, Amnesia, ClockJump, ResentRelease, NodeDown];
    r13b_wakeup: Redis(1), Renewed, can [CheckOwner, Reenter, Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [PausedHolder, Failover, Amnesia, ClockJump, ResentRelease, NodeDown];
    r13c_resent_release: Redis(1), Renewed, can [CheckOwner, Reenter, Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r13d_redisson_lock: Redis(1), Renewed, can [CheckOwner, Reenter, Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [PausedHolder, Failover, Amnesia, ClockJump, NodeDown];
    r14_multi_lock: Redis(3), Renewed, can [CheckOwner, Reenter, Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout, NoSelfDeadlock], breaks [NodeDown, PausedHolder];
    r15_redlock: Redis(3), Renewed, can [CheckOwner, Wait, Majority], Bare, keeps [NoOversell, NoUndersell, NoOutage, NoLockout], breaks [Nested, Failover, Amnesia, ClockJump, PausedHolder];
    r16_fencing: Redis(1), Fixed, can [CheckOwner, Reenter, Fence], Bare, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout, NoSelfDeadlock], breaks [NodeDown];
    r17_zookeeper: ZooKeeper, Renewed, can [Wait], Bare, keeps [NoOversell, NoUndersell, NoLockout], breaks [Nested, PausedHolder, NodeDown];
    r18a_constraints: NoLock, NoLease, can [Standby], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [DatabaseFailover];
    r18b_stock_segments: NoLock, NoLease, can [Segments], Guarded, keeps [NoOversell, OnePerUser, NoDeadlock], breaks [OtherSegment];
    r18c_all_segments: NoLock, NoLease, can [Segments], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [GivenBackTogether];
    r19_group_commit: Redis(1), Renewed, can [CheckOwner, OneStep, Standby], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout], breaks [NodeDown, DatabaseFailover];
    r20_lua_and_queue: Stream, NoLease, can [QueueInMemory], Bare, keeps [NoOversell, OnePerUser], breaks [QueueFull, DiesWithLast, FullQueueDies, DiesBeforeWrite, StockReloaded, NodeDown];
    r21a_lua_and_stream: Stream, NoLease, can [], Bare, keeps [NoOversell, OnePerUser], breaks [DiesWithLast, DiesBeforeWrite, PoisonEntry, PoisonWithLast, RedisDies, ReplicaLags, StockReloaded, NodeDown];
    r21b_stream_from_now: Stream, NoLease, can [], Bare, keeps [NoOversell, OnePerUser], breaks [DiesWithLast, DiesBeforeWrite, PoisonEntry, PoisonWithLast, GroupFromNow, StreamTrimmed, RedisDies, ReplicaLags, StockReloaded, NodeDown];
    r21c_unchecked_consumer: Stream, NoLease, can [], Bare, keeps [], breaks [UpdateIgnored, SoldAfterReload, RedisRestored, DiesBeforeAck, ConnectionLost, OneConsumerName, DiesWithLast, DiesBeforeWrite, PoisonEntry, PoisonWithLast, RedisDies, ReplicaLags, NodeDown];
    r21d_batched_consumer: Stream, NoLease, can [], Guarded, keeps [NoOversell, OnePerUser], breaks [PoisonEntry, PoisonWithLast, RedisDies, ReplicaLags, StockReloaded, NodeDown];
    r22_stream_done_right: Stream, NoLease, can [GiveUp], Guarded, keeps [NoOversell, OnePerUser], breaks [GivenUp, RedisDies, ReplicaLags, NodeDown];
    r23a_outbox: Stream, NoLease, can [Relay, Standby], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoOutage, NoBrokenPromise], breaks [DatabaseFailover];
    r23b_batched_outbox: Stream, NoLease, can [Relay, OneStep, Standby], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoOutage, NoBrokenPromise], breaks [DatabaseFailover];
    r24_expire_by_timer: NoLock, NoLease, can [Expire], Guarded, keeps [OnePerUser], breaks [SoldAgain, HalfExpired, ForgottenTimer, PayAndExpire, LatePayment, UnknownOrder];
    r25_expire_by_condition: NoLock, NoLease, can [Expire], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoStuckStock, NoLostPayment], breaks [];
    r26a_cached_stock: NoLock, NoLease, can [Cache], Guarded, keeps [NoOversell, OnePerUser], breaks [JustRestocked, StaleRefill, LateRefill, NodeDown];
    r26b_delayed_double_delete: NoLock, NoLease, can [Cache, DeleteAgain], Guarded, keeps [NoOversell, OnePerUser], breaks [JustRestocked, UntoldCache, LateRefill, LostDelete, NodeDown];
    r26c_sold_out_for_a_second: NoLock, NoLease, can [Cache, DeleteAgain], Guarded, keeps [NoOversell, OnePerUser, NoLastingRefusal], breaks [JustRestocked, UntoldCache, NodeDown];
    r26d_write_then_delete: NoLock, NoLease, can [Cache, DeleteAgain], Guarded, keeps [NoOversell, OnePerUser, NoLastingRefusal], breaks [JustRestocked, UntoldCache, NodeDown];
    r26e_versioned_fill: NoLock, NoLease, can [Cache, DeleteAgain], Guarded, keeps [NoOversell, OnePerUser, NoLastingRefusal], breaks [UntoldCache, NodeDown];
    r27a_retry: NoLock, NoLease, can [Retried], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [AnswerLost];
    r27b_request_key: NoLock, NoLease, can [Retried], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, SameAnswer], breaks [];
    r28a_fixed_window: NoLock, NoLease, can [Rate], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [WindowEdge, NodeDown];
    r28b_token_bucket: NoLock, NoLease, can [Rate], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [ClockAhead, NodeDown];
    r28c_redis_time: NoLock, NoLease, can [Rate], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, WithinRate], breaks [NodeDown];
    r29a_admission_token: NoLock, NoLease, can [Token], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, NoLockout], breaks [TokenTwice, NodeDown];
    r29b_spent_token: NoLock, NoLease, can [Token], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, LetInOnce], breaks [DiesLetIn, NodeDown];
    r30a_first_come: NoLock, NoLease, can [Race], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [OtherOrder];
    r30b_draw: NoLock, NoLease, can [Race, Draw], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, EarlyGivesNothing], breaks [];
    r31a_line_by_check: NoLock, NoLease, can [Line], Guarded, keeps [NoOversell, OnePerUser, NoUndersell], breaks [PassedInLine];
    r31b_line_by_condition: NoLock, NoLease, can [Line], Guarded, keeps [NoOversell, OnePerUser, NoUndersell, FairOrder], breaks [];
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

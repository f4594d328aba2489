//! Snapshots that are too old, and rows that are not there: the retry that reads its own past, the advisory
//! lock that is granted too late, write skew, gap locks.

use super::case::{GoesOn, IsolationCase, IsolationPromise, SqlScript, Statement};
use super::designs::{
    BEGIN, COMMIT, LOCK_USER, ORDER, R03, READ, TAKE_GUARDED, TAKE_UNCHANGED, UNLOCK_USER,
};

/// One order per user in the whole sale: the two transactions of one user change different rows.
const COUNT_ALL: Statement =
    Statement::new("select count(*) from orders where user_id = {user}").when(GoesOn::IfNone);

// --- A compare-and-set that tries again ------------------------------------------------------

const CAS_LOOP: &[Statement] =
    &[BEGIN, READ, TAKE_UNCHANGED.when(GoesOn::OrTriesAgain(1)), ORDER, COMMIT];

pub(super) const CAS_OWN_SNAPSHOT: IsolationCase = IsolationCase {
    name: "cas_own_snapshot",
    story: "a compare-and-set that failed reads again and tries again, in the same transaction",
    promise: IsolationPromise::LoopEnds,
    mariadb_setting: Some("innodb_snapshot_isolation = off"),
    sessions: &[SqlScript::new(7, 1, R03), SqlScript::new(8, 1, CAS_LOOP)],
    // Both have read; then the first buys.
    turns: "1212111",
    ..IsolationCase::PLAIN
};

pub(super) const CAS_SNAPSHOT_CHECKED: IsolationCase = IsolationCase {
    name: "cas_snapshot_checked",
    story: "cas_own_snapshot where MariaDB compares what an update finds with the snapshot",
    mariadb_setting: Some("innodb_snapshot_isolation = on"),
    ..CAS_OWN_SNAPSHOT
};

// --- An advisory lock, and when the snapshot is taken ----------------------------------------

const LOCK_FIRST: &[Statement] =
    &[BEGIN, LOCK_USER, COUNT_ALL, TAKE_GUARDED, ORDER, COMMIT, UNLOCK_USER];
const LOCK_AFTER_SELECT: &[Statement] =
    &[BEGIN, READ, LOCK_USER, COUNT_ALL, TAKE_GUARDED, ORDER, COMMIT, UNLOCK_USER];
const LOCK_OUTSIDE: &[Statement] = &[
    Statement::each("select pg_advisory_lock({user})", "select get_lock('user {user}', 10)"),
    BEGIN,
    COUNT_ALL,
    TAKE_GUARDED,
    ORDER,
    COMMIT,
    Statement::each("select pg_advisory_unlock({user})", "select release_lock('user {user}')")
        .when(GoesOn::AtLast),
];

/// One user buys both vouchers at once, and may have one.
const fn both_vouchers(
    name: &'static str,
    story: &'static str,
    sessions: &'static [SqlScript],
) -> IsolationCase {
    let promise = IsolationPromise::OnePerUser;
    IsolationCase { name, story, promise, sessions, ..IsolationCase::PLAIN }
}

pub(super) const ADVISORY_FIRST: IsolationCase = both_vouchers(
    "advisory_first",
    "an advisory lock is the first statement of the transaction",
    &[SqlScript::new(7, 1, LOCK_FIRST), SqlScript::new(7, 2, LOCK_FIRST)],
);

pub(super) const ADVISORY_AFTER_SELECT: IsolationCase = both_vouchers(
    "advisory_after_select",
    "the transaction has read something before it asks for the advisory lock",
    &[SqlScript::new(7, 1, LOCK_AFTER_SELECT), SqlScript::new(7, 2, LOCK_AFTER_SELECT)],
);

pub(super) const ADVISORY_OUTSIDE: IsolationCase = both_vouchers(
    "advisory_outside",
    "the advisory lock is taken before the transaction begins, and given back after its end",
    &[SqlScript::new(7, 1, LOCK_OUTSIDE), SqlScript::new(7, 2, LOCK_OUTSIDE)],
);

// --- Rows that are not there -----------------------------------------------------------------

const COUNT_THEN_INSERT: &[Statement] = &[BEGIN, COUNT_ALL, TAKE_GUARDED, ORDER, COMMIT];

pub(super) const WRITE_SKEW: IsolationCase = both_vouchers(
    "write_skew",
    "one user buys both vouchers at once, each after counting the user's orders",
    &[SqlScript::new(7, 1, COUNT_THEN_INSERT), SqlScript::new(7, 2, COUNT_THEN_INSERT)],
);

const LOCK_THE_MISSING: &[Statement] = &[
    BEGIN,
    Statement::new("select id from orders where user_id = {user} for update").when(GoesOn::IfNone),
    TAKE_GUARDED,
    ORDER,
    COMMIT,
];

pub(super) const GAP_LOCKS: IsolationCase = both_vouchers(
    "gap_locks",
    "one user buys both vouchers at once, each after locking an order that is not there",
    &[SqlScript::new(7, 1, LOCK_THE_MISSING), SqlScript::new(7, 2, LOCK_THE_MISSING)],
);

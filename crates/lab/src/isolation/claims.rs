//! What each case is claimed to come to. Tried both ways: a claim that is not what is seen fails the run.

use super::case::IsolationCase;
use super::server::{DatabaseKind, IsolationLevel};
use super::{designs, lessons, retry_lessons};
use crate::LabClaim;

/// A claim about one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolationClaim {
    /// Whether the promise is kept.
    pub outcome: LabClaim,
    /// The errors that the sessions hear, in the order in which they are heard first: PostgreSQL's SQLSTATE,
    /// MariaDB's number.
    pub errors: &'static str,
}

/// A case, and what is claimed of it.
#[derive(Debug)]
pub struct ClaimedCase {
    /// The case.
    pub case: IsolationCase,
    /// At read committed, repeatable read, serializable.
    postgres: [Option<IsolationClaim>; 3],
    mariadb: [Option<IsolationClaim>; 3],
}

impl ClaimedCase {
    /// What is claimed of a cell; `None` where it makes no sense.
    pub fn claim(&self, server: DatabaseKind, level: IsolationLevel) -> Option<IsolationClaim> {
        let claims = match server {
            DatabaseKind::Postgres => self.postgres,
            DatabaseKind::MariaDb => self.mariadb,
        };
        claims[level as usize]
    }
}

const fn holds(errors: &'static str) -> Option<IsolationClaim> {
    Some(IsolationClaim { outcome: LabClaim::Holds, errors })
}

const fn breaks(errors: &'static str) -> Option<IsolationClaim> {
    Some(IsolationClaim { outcome: LabClaim::Breaks, errors })
}

const HOLDS: Option<IsolationClaim> = holds("");
const BREAKS: Option<IsolationClaim> = breaks("");
const ABSENT: [Option<IsolationClaim>; 3] = [None; 3];

const fn claimed(
    case: IsolationCase,
    postgres: [Option<IsolationClaim>; 3],
    mariadb: [Option<IsolationClaim>; 3],
) -> ClaimedCase {
    ClaimedCase { case, postgres, mariadb }
}

/// Every case: what PostgreSQL, and what MariaDB makes of it at read committed, repeatable read and
/// serializable.
#[rustfmt::skip]
pub const CASES: &[ClaimedCase] = &[
    claimed(designs::R01_LAST_ONE, [BREAKS, holds("40001"), holds("40001")], [BREAKS, BREAKS, holds("1213")]),
    claimed(designs::R02_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, HOLDS]),
    claimed(designs::R03_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(designs::R04_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(designs::R05_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(designs::ADVISORY_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(designs::R18_LAST_ONE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, HOLDS]),
    claimed(designs::R01_TWICE, [BREAKS, holds("40001"), holds("40001")], [BREAKS, BREAKS, holds("1213")]),
    claimed(designs::R02_TWICE, [BREAKS, holds("40001"), holds("40001")], [BREAKS, BREAKS, BREAKS]),
    claimed(designs::R03_TWICE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(designs::R04_TWICE, [BREAKS, holds("40001"), holds("40001")], [BREAKS, BREAKS, holds("1213")]),
    claimed(designs::R05_TWICE, [BREAKS, holds("40001"), holds("40001")], [BREAKS, BREAKS, holds("1213")]),
    claimed(designs::ADVISORY_TWICE, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, HOLDS]),
    claimed(designs::R18_TWICE, [holds("23505"), holds("40001"), holds("40001")], [holds("1062"), holds("1062"), holds("1062")]),
    claimed(lessons::CAS_OWN_SNAPSHOT, [HOLDS, holds("40001"), holds("40001")], [HOLDS, BREAKS, holds("1213")]),
    claimed(lessons::CAS_SNAPSHOT_CHECKED, ABSENT, [HOLDS, holds("1020"), holds("1213")]),
    claimed(lessons::ADVISORY_FIRST, [HOLDS, BREAKS, holds("40001")], [HOLDS, HOLDS, HOLDS]),
    claimed(lessons::ADVISORY_AFTER_SELECT, [HOLDS, BREAKS, holds("40001")], [HOLDS, BREAKS, HOLDS]),
    claimed(lessons::ADVISORY_OUTSIDE, [HOLDS, HOLDS, HOLDS], [HOLDS, HOLDS, HOLDS]),
    claimed(lessons::WRITE_SKEW, [BREAKS, BREAKS, holds("40001")], [BREAKS, BREAKS, holds("1213")]),
    claimed(lessons::GAP_LOCKS, [BREAKS, BREAKS, holds("40001")], [BREAKS, holds("1213"), holds("1213")]),
    claimed(retry_lessons::OPPOSITE_ORDER, [breaks("40P01"), breaks("40P01"), breaks("40P01")], [breaks("1213"), breaks("1213"), breaks("1213")]),
    claimed(retry_lessons::SAME_ORDER, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, HOLDS]),
    claimed(retry_lessons::RETRY_NOBODY, [HOLDS, breaks("40001"), breaks("40001")], [HOLDS, HOLDS, breaks("1213")]),
    claimed(retry_lessons::RETRY_CLIENT, [HOLDS, holds("40001"), holds("40001")], [HOLDS, HOLDS, holds("1213")]),
    claimed(retry_lessons::RETRY_STATEMENT, [holds("40P01 25P02"), holds("40P01 25P02"), holds("40P01 25P02")], [breaks("1213"), breaks("1213"), breaks("1213")]),
    claimed(retry_lessons::RETRY_TRANSACTION, [holds("40P01"), holds("40P01"), holds("40P01")], [holds("1213"), holds("1213"), holds("1213")]),
    claimed(retry_lessons::LOCK_WAIT_TIMEOUT, [holds("55P03"), holds("55P03"), holds("55P03")], [breaks("1205"), breaks("1205"), breaks("1205")]),
    claimed(retry_lessons::DUPLICATE_CAUGHT_COMMITTED, [holds("23505"), holds("23505"), holds("23505")], [breaks("1062"), breaks("1062"), breaks("1062")]),
    claimed(retry_lessons::INSERT_BEFORE_UPDATE, [holds("23505"), holds("23505 40001"), holds("23505 40001")], [holds("1062"), holds("1062"), holds("1062")]),
];

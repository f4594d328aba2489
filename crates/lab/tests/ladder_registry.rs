//! The registry: what a rung's row says in one place agrees with what it says in another.

use ladder::{Capability, Invariant, LeaseKind, LockKind, RUNGS, Rung, Scenario, Tables, parts};

use crate::course::page::LANGUAGES;

/// What one of a rung's entries says of another one: a condition, what follows, and why.
fn implications(rung: &Rung) -> Vec<(bool, bool, &'static str)> {
    let keeps = |promise: Invariant| rung.claims.contains(&promise);
    let breaks = |scenario: Scenario| rung.breaks.contains(&scenario);
    let in_redis = matches!(rung.lock, LockKind::Redis(_));
    let is_service = in_redis || rung.lock == LockKind::ZooKeeper;
    let is_fixed = rung.lease == LeaseKind::Fixed;
    let reenters = rung.can(Capability::Reenter);
    let can_nest = keeps(Invariant::NoSelfDeadlock);
    let never_ends = is_service && rung.lease == LeaseKind::NoLease;
    let majority = rung.can(Capability::Majority);
    vec![
        (rung.lease != LeaseKind::NoLease, is_service, "only a lock service keeps leases"),
        (reenters, can_nest, "a holder that may take the lock again does not wait for itself"),
        (can_nest, reenters, "a holder that does not wait for itself may take the lock again"),
        (never_ends, breaks(Scenario::HolderDies), "a lock without a lease outlives its holder"),
        (never_ends, !breaks(Scenario::ClockJump), "no clock ends a lock without a lease"),
        (
            is_fixed && !rung.can(Capability::Fence),
            breaks(Scenario::OutlivedLease),
            "a fixed lease ends while the holder works",
        ),
        (rung.can(Capability::Fence), keeps(Invariant::OnePerUser), "a fence refuses the late"),
        (!is_fixed, !breaks(Scenario::OutlivedLease), "only a fixed lease does"),
        (
            is_fixed && !rung.can(Capability::CheckOwner),
            breaks(Scenario::SlowHolder),
            "a release that does not look deletes somebody else's lock",
        ),
        (
            rung.can(Capability::CheckOwner),
            !breaks(Scenario::SlowHolder),
            "one that looks does not",
        ),
        (is_service && !majority, breaks(Scenario::NodeDown), "all servers means all of them"),
        (majority, !breaks(Scenario::NodeDown), "a majority bears the loss of one"),
        (
            // The check is of the stock; what is given back twice passes it.
            rung.tables == Tables::Guarded && !rung.can(Capability::Expire),
            keeps(Invariant::NoOversell),
            "the check holds",
        ),
        (rung.tables == Tables::Guarded, keeps(Invariant::OnePerUser), "the unique index holds"),
        (
            keeps(Invariant::NoBrokenPromise),
            rung.decides_in_database(),
            "a rung that keeps it decides before it answers",
        ),
    ]
}

/// Scenarios that only a rung with such a capability can break in, and why.
const NEEDED: [(Scenario, Capability, &str); 5] = [
    (Scenario::GivenUp, Capability::GiveUp, "only a rung that gives up can"),
    (Scenario::QueueFull, Capability::QueueInMemory, "a stream grows"),
    (Scenario::OtherSegment, Capability::Segments, "one row has no other"),
    (Scenario::LostDelete, Capability::DeleteAgain, "what is deleted once is not deleted again"),
    (Scenario::UntoldCache, Capability::DeleteAgain, "the cache was told before the write"),
];

/// Whether a capability makes sense where the rung keeps its lock, or on its consumer.
fn fits(rung: &Rung, capability: Capability) -> bool {
    let in_redis = matches!(rung.lock, LockKind::Redis(_));
    match capability {
        Capability::CheckOwner | Capability::Reenter | Capability::Fence => in_redis,
        Capability::OneStep => in_redis || rung.can(Capability::Relay),
        Capability::LockRow
        | Capability::Segments
        | Capability::Cache
        | Capability::Rate
        | Capability::Token
        | Capability::Race
        | Capability::Retried => rung.lock == LockKind::NoLock,
        Capability::DeleteAgain => rung.can(Capability::Cache),
        Capability::Wait => {
            let others = [LockKind::Database, LockKind::Mutex, LockKind::ZooKeeper];
            in_redis || others.contains(&rung.lock)
        }
        Capability::Standby => rung.decides_in_database() && rung.tables == Tables::Guarded,
        Capability::Majority => matches!(rung.lock, LockKind::Redis(2..)),
        Capability::QueueInMemory | Capability::GiveUp | Capability::Relay => rung.has_consumer(),
        // Prices are in the production tables only, and a lock has no part in it.
        Capability::Expire | Capability::Draw | Capability::Line => {
            rung.tables == Tables::Guarded && rung.lock == LockKind::NoLock
        }
    }
}

#[test]
fn claims_and_capabilities_agree_where_one_implies_the_other() {
    for rung in RUNGS {
        for (condition, follows, why) in implications(rung) {
            assert!(!condition || follows, "{}: {why}", rung.id);
        }
        for (scenario, capability, why) in NEEDED {
            let breaks = rung.breaks.contains(&scenario);
            assert!(!breaks || rung.can(capability), "{}: {why}", rung.id);
        }
        for capability in rung.capabilities {
            assert!(fits(rung, *capability), "{}: {capability:?}", rung.id);
        }
    }
}

#[test]
fn a_lock_is_had_on_all_of_its_servers_or_on_a_majority() {
    let quorum = |id: &str| ladder::find(id).map(Rung::quorum);
    let expected = [("r04", 0), ("r06", 0), ("r13d", 1), ("r14", 3), ("r15", 2), ("r17", 1)];
    for (id, servers) in expected {
        assert_eq!(quorum(id), Ok(servers), "{id}");
    }
}

#[test]
fn what_is_said_in_one_language_is_said_in_the_other() {
    for rung in RUNGS {
        let of = |language| {
            let [idea, holds] = [rung.idea(language), rung.holds(language)];
            [idea, holds, rung.breaks_when(language), rung.next_step(language)]
        };
        let [english, chinese] = LANGUAGES.map(of);
        // What has no Chinese is in English there, too.
        for (english, chinese) in english.iter().zip(&chinese) {
            assert!(!english.is_empty() && !chinese.is_empty(), "{}", rung.id);
            assert_ne!(english, chinese, "{}", rung.id);
        }
        // The lab and the report quote these.
        for line in ["Idea", "Holds", "Breaks when", "Next"] {
            assert!(rung.line(line).len() > 10, "{}: no line {line:?}", rung.id);
        }
        let [english, chinese] = LANGUAGES.map(|language| rung.chapter(language).is_some());
        assert_eq!(english, chinese, "{}", rung.id);
    }
    for pair in RUNGS.windows(2) {
        let begins = |language| pair[0].part(language) != pair[1].part(language);
        let [english, chinese] = LANGUAGES.map(begins);
        assert_eq!(english, chinese, "{}", pair[1].id);
    }
    assert_eq!(parts().count(), 10);
}

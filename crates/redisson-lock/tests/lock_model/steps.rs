//! What may happen to locks, at random.

use std::fmt;
use std::time::Duration;

use faults::Fault;
use proptest::prelude::*;
use redisson_lock::Lease;

/// Time goes in steps of this length, on a clock that the test moves. Every lease is a
/// multiple, and a third of one that is renewed, too.
pub const SLICE: Duration = Duration::from_secs(300);

pub const LEASES: [Lease; 3] = [
    Lease::Fixed(SLICE),
    Lease::Fixed(SLICE.saturating_mul(3)),
    Lease::Renewed(SLICE.saturating_mul(3)),
];

/// Who enters what, and how. Numbers of clients, guards and so on are taken modulo how many there are.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub client: u8,
    /// `None`: an owner of its own.
    pub shared_owner: Option<u8>,
    pub name: u8,
    pub lease: u8,
    pub fenced: bool,
}

/// Between two polls of a future that is dropped half-way.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    Yield,
    /// Until everything sent before is answered.
    RoundTrip,
}

/// How an entry that may be cancelled is made.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Try,
    AtOnce,
    Shortly,
    Wait,
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The network may lose something of it.
    Enter(Entry, Way, Option<Fault>),
    /// With the owner of a guard, on its lock.
    ReEnter(u8, Entry),
    CancelEnter(Entry, Way, u8, Pace),
    CancelWait(u8),
    Release(u8, Option<Fault>),
    CancelRelease(u8, u8, Pace),
    Drop(u8),
    /// Redis forgets the lock, and tells nobody.
    Expire(u8),
    ForceRelease(Entry),
    /// For everybody.
    TimePasses,
    /// A client's connections are cut.
    Outage(u8),
    /// A client is gone, with its guards.
    Crash(u8),
    /// Another takes its place; its guards live on.
    ShutDown(u8),
    /// What the client says about a lock is true.
    Ask(Entry),
}

/// A step, and whether the next follows before everything has come to rest.
pub type Hurried = (Step, bool);

#[derive(Debug, Clone)]
pub struct Sequence {
    pub names: usize,
    pub steps: Vec<Hurried>,
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "on {} names", self.names)?;
        for (step, hurried) in &self.steps {
            write!(formatter, "\n  {step:?}{}", if *hurried { ", and at once" } else { "" })?;
        }
        Ok(())
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    (0..3u8, prop::option::of(0..2u8), 0..3u8, 0..3u8, any::<bool>()).prop_map(
        |(client, shared_owner, name, lease, fenced)| Entry {
            client,
            shared_owner,
            name,
            lease,
            fenced,
        },
    )
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Try), Just(Way::AtOnce), Just(Way::Shortly), Just(Way::Wait)]
}

/// How often a future is polled before it is dropped, and how fast. An answer needs many yields, and few round trips.
fn polls() -> impl Strategy<Value = (u8, Pace)> {
    prop_oneof![(0..60u8, Just(Pace::Yield)), (0..6u8, Just(Pace::RoundTrip))]
}

fn loss() -> impl Strategy<Value = Option<Fault>> {
    prop::option::weighted(0.1, prop_oneof![Just(Fault::LoseRequest), Just(Fault::LoseAnswer)])
}

fn step() -> impl Strategy<Value = Step> {
    let guard = 0..8u8;
    prop_oneof![
        10 => (entry(), way(), loss()).prop_map(|(entry, way, loss)| Step::Enter(entry, way, loss)),
        4 => (guard.clone(), entry()).prop_map(|(guard, entry)| Step::ReEnter(guard, entry)),
        3 => (entry(), way(), polls()).prop_map(
            |(entry, way, (polls, pace))| Step::CancelEnter(entry, way, polls, pace)),
        1 => guard.clone().prop_map(Step::CancelWait),
        7 => (guard.clone(), loss()).prop_map(|(guard, loss)| Step::Release(guard, loss)),
        2 => (guard.clone(), polls()).prop_map(
            |(guard, (polls, pace))| Step::CancelRelease(guard, polls, pace)),
        2 => guard.clone().prop_map(Step::Drop),
        1 => (0..3u8).prop_map(Step::Expire),
        1 => entry().prop_map(Step::ForceRelease),
        1 => Just(Step::TimePasses),
        1 => (0..3u8).prop_map(Step::Outage),
        1 => (0..3u8).prop_map(Step::Crash),
        1 => (0..3u8).prop_map(Step::ShutDown),
        1 => entry().prop_map(Step::Ask),
    ]
}

pub fn sequence() -> impl Strategy<Value = Sequence> {
    (1..=3usize, prop::collection::vec((step(), prop::bool::weighted(0.3)), 1..20))
        .prop_map(|(names, steps)| Sequence { names, steps })
}

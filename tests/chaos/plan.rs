//! The faults of a round: all of them follow from the seed.

use std::fmt;
use std::time::Duration;

use faults::Fault as NetworkFault;
use private_stores::Server;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seckill::purchase::Strategy;

const STRATEGIES: [Strategy; 3] =
    [Strategy::GroupCommit, Strategy::GroupCommitUnlocked, Strategy::Locked];

/// A pause of a node that is longer than the lease of its buyers' locks.
const LONGER_THAN_A_LEASE: Duration = Duration::from_millis(5500);

/// What can be killed or paused. The node is the second of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Victim {
    #[strum(to_string = "node")]
    Node,
    #[strum(transparent)]
    Server(Server),
}

/// From whom a server is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    SecondNode,
    BothNodes,
}

/// What a full disk stops first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Disk {
    /// Redis cannot write its append-only file, and refuses every write.
    Redis,
    /// They cannot grow.
    #[strum(to_string = "PostgreSQL's tables")]
    Tables,
    /// PostgreSQL cannot begin another file of its write-ahead log: it ends itself.
    #[strum(to_string = "PostgreSQL's log")]
    WriteAheadLog,
}

impl Disk {
    pub fn of(self) -> Server {
        if self == Self::Redis { Server::Redis } else { Server::Postgres }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL; then it is started again.
    Kill(Victim),
    /// SIGSTOP, then SIGCONT.
    Pause(Victim),
    /// A proxy between the nodes and the server breaks the network.
    Cut(Server, NetworkFault, Reach),
    /// The second node's clock jumps by so many minutes, then back.
    ClockJump(i64),
    /// Not one more block can be written, then it can again.
    DiskFull(Disk),
    /// Another session holds the rows of the newest orders.
    HoldOrders,
    /// The connections to PostgreSQL break, and each new one takes longer than a purchase waits.
    SlowReconnect(Reach),
}

impl Fault {
    /// What the figures count it as.
    pub fn kind(self) -> String {
        match self {
            Self::Kill(victim) => format!("{victim} killed"),
            Self::Pause(victim) => format!("{victim} paused"),
            Self::Cut(server, NetworkFault::Down, _) => format!("{server} cut off"),
            Self::Cut(server, NetworkFault::LoseAnswer, _) => format!("answer of {server} lost"),
            Self::Cut(server, _, _) => format!("{server} silent"),
            Self::ClockJump(_) => "clock jump".to_owned(),
            Self::DiskFull(disk) => format!("disk full under {disk}"),
            Self::HoldOrders => "orders held".to_owned(),
            Self::SlowReconnect(_) => "slow reconnect".to_owned(),
        }
    }
}

/// One fault of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub fault: Fault,
    /// When it begins, counted from the first fault of the round.
    pub begins: Duration,
    pub lasts: Duration,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.kind())?;
        match self.fault {
            Fault::ClockJump(minutes) => write!(f, " of {minutes:+} min")?,
            Fault::Cut(_, _, Reach::SecondNode) | Fault::SlowReconnect(Reach::SecondNode) => {
                f.write_str(" (second node)")?;
            }
            _ => {}
        }
        let (begins, lasts) = (self.begins.as_millis(), self.lasts.as_millis());
        write!(f, " at {begins} for {lasts} ms")
    }
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    pub seed: u64,
    pub strategy: Strategy,
    /// Orders that are sold before the first fault.
    pub orders_before: usize,
    pub steps: Vec<Step>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        write!(f, "{}, after {} orders: ", self.strategy, self.orders_before)?;
        f.write_str(if steps.is_empty() { "no fault" } else { "" })?;
        f.write_str(&steps.join(", "))
    }
}

impl Round {
    pub fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let strategy = STRATEGIES[random.random_range(0..STRATEGIES.len())];
        let orders_before = random.random_range(50..300);
        // A server that cannot write is not killed, too: it may not come up before it can.
        let disk_full = random.random_bool(0.12);
        let servers = [Server::Redis, Server::Postgres];
        let mut victims = vec![Victim::Node];
        victims.extend(servers.into_iter().filter(|_| !disk_full).map(Victim::Server));
        let mut struck = victims.clone();
        struck.retain(|_| random.random_bool(0.4));
        if struck.is_empty() && !disk_full {
            struck.push(victims[random.random_range(0..victims.len())]);
        }
        let disks = [Disk::Redis, Disk::Tables, Disk::WriteAheadLog];
        let disk = Fault::DiskFull(disks[random.random_range(0..disks.len())]);
        let faults = disk_full.then_some(disk).into_iter();
        let faults = faults.chain(struck.into_iter().map(|victim| fault(victim, &mut random)));
        let faults: Vec<Fault> = faults.collect();
        let mut steps: Vec<Step> =
            faults.into_iter().map(|fault| step(fault, &mut random)).collect();
        // Last, so that the other faults of a seed are what they were before there were these.
        if random.random_bool(0.25) {
            steps.push(step(Fault::HoldOrders, &mut random));
        }
        // Both would break the same proxies.
        let is_cut = |step: &Step| matches!(step.fault, Fault::Cut(Server::Postgres, ..));
        if random.random_bool(0.2) && !steps.iter().any(is_cut) {
            let reach = reach(&mut random);
            steps.push(step(Fault::SlowReconnect(reach), &mut random));
        }
        Self { seed, strategy, orders_before, steps }
    }

    /// The server whose disk is filled, if there is one.
    pub fn fills_disk_of(&self) -> Option<Server> {
        self.steps.iter().find_map(|step| match step.fault {
            Fault::DiskFull(disk) => Some(disk.of()),
            _ => None,
        })
    }
}

fn fault(victim: Victim, random: &mut StdRng) -> Fault {
    let Victim::Server(server) = victim else {
        return match random.random_range(0..5) {
            0 | 1 => Fault::Kill(victim),
            2 | 3 => Fault::Pause(victim),
            // The sale began an hour ago and lasts another hour, and so do the tokens.
            _ => {
                let minutes = random.random_range(1..50);
                Fault::ClockJump(if random.random_bool(0.5) { minutes } else { -minutes })
            }
        };
    };
    match random.random_range(0..10) {
        0..4 => Fault::Kill(victim),
        4..6 => Fault::Pause(victim),
        _ => {
            let faults = [NetworkFault::Down, NetworkFault::Deaf, NetworkFault::LoseAnswer];
            let reach = reach(random);
            Fault::Cut(server, faults[random.random_range(0..faults.len())], reach)
        }
    }
}

fn reach(random: &mut StdRng) -> Reach {
    if random.random_bool(0.5) { Reach::BothNodes } else { Reach::SecondNode }
}

fn step(fault: Fault, random: &mut StdRng) -> Step {
    // At one moment, or each at its own. A batch takes a few milliseconds.
    let latest = if random.random_bool(0.5) { 20_000 } else { 1_000_000 };
    let begins = Duration::from_micros(random.random_range(0..latest));
    let at_least = match fault {
        Fault::Kill(_) => 0,
        // The library that moves a clock looks once a second by how much.
        Fault::ClockJump(_) => 1_100,
        _ => 100,
    };
    let mut lasts = Duration::from_millis(at_least + random.random_range(0..1_500));
    if fault == Fault::Pause(Victim::Node) && random.random_bool(0.2) {
        lasts += LONGER_THAN_A_LEASE;
    }
    Step { fault, begins, lasts }
}

#[test]
fn whoever_chooses_in_a_round_chooses_by_its_seed() {
    let sources = [
        include_str!("gateway.rs"),
        include_str!("lines.rs"),
        include_str!("money.rs"),
        include_str!("round.rs"),
    ];
    for source in sources {
        assert!(!source.contains("rand::rng(") && !source.contains("rand::random"));
    }
}

#[test]
fn a_seed_always_says_the_same_and_every_kind_of_fault_comes() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let round = Round::of(seed);
        assert_eq!(round, Round::of(seed));
        assert!(!round.steps.is_empty());
        kinds.extend(round.steps.iter().map(|step| step.fault.kind()));
    }
    // Three are killed, three paused; two can be cut off, silent, or lose an answer; three things
    // are stopped by a full disk, one clock jumps, orders are held, and a reconnect is slow.
    assert_eq!(kinds.len(), 3 + 3 + 6 + 3 + 1 + 1 + 1, "{kinds:?}");
}

//! What is played: a rung, who takes part, in how many processes, what is on sale; and in what a rung is explored.

use serde::{Serialize, Serializer};

use super::schedule::{ACTOR_NAMES, CONSUMER, Schedule, Step, TIME};
use crate::scheduler::NodeIndex;
use ladder::{Capability, LeaseKind, LockKind, Rung, named};

/// Where an order was sold that is not paid in time, where its payment comes, and where it is ended; and where
/// the consumer works whose turns are steps.
pub(crate) const FIRST_NODE: NodeIndex = NodeIndex(0);

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct GamePlan {
    /// The rung.
    pub rung: &'static Rung,
    /// Attempts to buy: 2 or 3.
    pub buyers: usize,
    /// Different users: one who comes several times, or as many as buyers.
    pub users: u8,
    /// Processes that sell: one, or one for each buyer.
    pub processes: u8,
    /// Vouchers on sale.
    pub stock: i32,
    /// A has ordered already and not paid in time: A pays, or comes again; the others want what A has.
    pub is_unpaid: bool,
}

named! {
    /// What may happen in a schedule, at any place.
    FaultKind {
        /// The lease of the lock ends while its holder works.
        Lease = "lease",
        /// A process is killed (`SIGKILL`).
        Kill = "kill",
        /// A process is stopped past the lease of the lock that it holds (`SIGSTOP`).
        Pause = "pause",
        /// The answer to whoever bought is lost, and the request is sent again.
        LostAnswer = "lost",
    }
}

impl FaultKind {
    /// What a step is; `None` for an actor's own.
    pub(crate) const fn of(step: Step) -> Option<Self> {
        match step {
            Step::Go(_) => None,
            Step::EndLease => Some(Self::Lease),
            Step::Kill(_) => Some(Self::Kill),
            Step::Pause(_) => Some(Self::Pause),
            Step::SendAgain => Some(Self::LostAnswer),
        }
    }
}

impl GamePlan {
    /// Two buyers.
    pub const fn new(rung: &'static Rung, users: u8, processes: u8, stock: i32) -> Self {
        Self { rung, buyers: 2, users, processes, stock, is_unpaid: false }
    }

    /// The buyers' names.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        &ACTOR_NAMES[..self.buyers]
    }

    /// Which of the users a buyer is, from 0.
    pub(crate) const fn user(&self, buyer: usize) -> i64 {
        if self.users == 1 { 0 } else { buyer as i64 }
    }

    /// Which process serves a buyer.
    pub(crate) const fn node(&self, buyer: usize) -> NodeIndex {
        NodeIndex(buyer % self.processes as usize)
    }

    /// Whether the fault can make sense on the rung in this plan. A process that is killed or stopped must not be
    /// everybody's, and it must be about the lock that a user's requests compete for, or about what was promised,
    /// to whomever. (A pause within the lease is what any schedule is that turns to somebody else.)
    pub(crate) fn allows(&self, fault: FaultKind) -> bool {
        let Self { rung, .. } = *self;
        let one_process_each = usize::from(self.processes) == self.buyers;
        if self.is_unpaid {
            return one_process_each && fault == FaultKind::Kill;
        }
        let is_at_stake = rung.has_consumer() || self.users == 1;
        match fault {
            FaultKind::Lease => can_end_lease(rung),
            FaultKind::Kill => one_process_each && is_at_stake && can_be_killed(rung),
            FaultKind::Pause => one_process_each && is_at_stake && can_be_paused(rung),
            FaultKind::LostAnswer => is_at_stake && rung.can(Capability::Retried),
        }
    }
}

/// Whether a lock of the rung has a lease that can be ended.
pub fn can_end_lease(rung: &Rung) -> bool {
    matches!(rung.lock, LockKind::Redis(_)) && rung.lease != LeaseKind::NoLease
}

/// Whether a kill of a process ever shows something on the rung: it has a lock or a consumer, and more than one
/// step.
pub fn can_be_killed(rung: &Rung) -> bool {
    rung.lock != LockKind::NoLock && !rung.can(Capability::OneStep)
}

/// Whether a process of the rung can be stopped past the lease of its lock: while it runs it renews that.
pub fn can_be_paused(rung: &Rung) -> bool {
    can_be_killed(rung) && rung.lease == LeaseKind::Renewed
}

named! {
    /// Where every schedule begins. The names are those of the scenarios.
    InitialState {
        /// One voucher, and every actor another user.
        LastOne = "last_one",
        /// A voucher for each actor, and all of them the same user.
        DoubleClick = "double_click",
        /// A voucher for each actor, and every actor another user.
        Herd = "herd",
        /// One voucher, which A has ordered and not paid in time. A pays, or wants it again where the rung has a line;
        /// the others want it.
        Unpaid = "unpaid",
        /// The same with a voucher for each actor, and all of them are A's user.
        BuysAgain = "buys_again",
    }
}

impl InitialState {
    /// Whether an order is there that was not paid in time.
    pub fn has_unpaid_order(self) -> bool {
        matches!(self, Self::Unpaid | Self::BuysAgain)
    }

    /// What is played from here.
    fn plan(self, rung: &'static Rung, processes: usize, buyers: usize) -> GamePlan {
        let one_voucher = matches!(self, Self::LastOne | Self::Unpaid);
        let one_user = matches!(self, Self::DoubleClick | Self::BuysAgain);
        GamePlan {
            rung,
            buyers,
            users: if one_user { 1 } else { buyers as u8 },
            processes: processes as u8,
            stock: if one_voucher { 1 } else { buyers as i32 },
            is_unpaid: self.has_unpaid_order(),
        }
    }

    /// Whether schedules of the rung can begin so.
    fn is_of(self, rung: &Rung) -> bool {
        let can_have_one = rung.can(Capability::Expire) || rung.can(Capability::Line);
        can_have_one || !self.has_unpaid_order()
    }
}

/// What is explored: every schedule from one initial state.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// The rung.
    #[serde(serialize_with = "by_name")]
    pub rung: &'static Rung,
    /// Where every schedule begins.
    pub from: InitialState,
    /// Processes that sell; the buyers take turns among them.
    #[serde(rename = "nodes")]
    pub processes: usize,
    /// Attempts to buy.
    #[serde(rename = "actors")]
    pub buyers: usize,
    /// What may happen once.
    pub faults: Vec<FaultKind>,
}

fn by_name<S: Serializer>(rung: &&'static Rung, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rung.id)
}

impl Setting {
    /// With one process or one for each buyer, and all the faults that make sense there.
    fn new(rung: &'static Rung, from: InitialState, processes: usize, buyers: usize) -> Self {
        let processes = if processes == 1 { 1 } else { buyers };
        let faults = faults_of(&from.plan(rung, processes, buyers));
        Self { rung, from, processes, buyers, faults }
    }

    /// What is played.
    pub fn plan(&self) -> GamePlan {
        self.from.plan(self.rung, self.processes, self.buyers)
    }

    /// The settings in which a rung is explored unless something else is asked for.
    ///
    /// A rung without a lock shares nothing but the database, so that one process shows what two
    /// would. A mutex is tried in one process and between two. Any other lock is meant to work
    /// between processes, and each actor has one of its own. Faults are about the lock that a user's
    /// requests compete for: they are played where all buyers are one user. Those of a rung with a
    /// consumer are about what was promised, to whomever. Where an order is not paid in time, the process
    /// that sold it is killed, and another one goes on.
    pub fn of(rung: &'static Rung, options: &SettingOptions) -> Vec<Self> {
        let usual = |from: InitialState| -> &[usize] {
            match rung.lock {
                LockKind::NoLock if from.has_unpaid_order() => &[2],
                LockKind::NoLock => &[1],
                LockKind::Mutex => &[1, 2],
                LockKind::Database
                | LockKind::Redis(_)
                | LockKind::ZooKeeper
                | LockKind::Stream => &[2],
            }
        };
        let counts =
            |from| options.processes.map_or_else(|| usual(from).to_vec(), |asked| vec![asked]);
        let states = options.from.map_or_else(|| InitialState::ALL.to_vec(), |asked| vec![asked]);
        let states = states.into_iter().filter(|from| from.is_of(rung));
        let settings = states.flat_map(|from| {
            let counts = counts(from).into_iter();
            counts.map(move |count| Self::new(rung, from, count, options.buyers))
        });
        let mut settings: Vec<Self> = settings.collect();
        if let Some(asked) = &options.faults {
            for setting in &mut settings {
                setting.faults.retain(|fault| asked.contains(fault));
            }
        }
        settings.sort_by_key(|setting| setting.processes);
        settings
    }

    /// The setting of one schedule.
    ///
    /// # Errors
    /// When a fault in it makes no sense there, or there is more than one: a sentence.
    pub fn of_schedule(
        rung: &'static Rung,
        schedule: &Schedule,
        from: InitialState,
        processes: usize,
    ) -> Result<Self, String> {
        let mut setting = Self::new(rung, from, processes, schedule.buyers());
        if schedule.0.is_empty() {
            return Err("a schedule has at least one step".to_owned());
        }
        if schedule.names(CONSUMER) && !rung.has_consumer() {
            return Err(format!("W is a consumer, and {} has none", rung.id));
        }
        if !from.is_of(rung) {
            return Err(format!("{} has no orders that have to be paid", rung.id));
        }
        if schedule.names(TIME) && !from.has_unpaid_order() {
            return Err(format!("T ends an order that is not paid, and {from} has none"));
        }
        let faults: Vec<FaultKind> = schedule.faults().filter_map(FaultKind::of).collect();
        if faults.len() > 1 {
            return Err("a schedule has one fault at most".to_owned());
        }
        if let Some(fault) = faults.iter().find(|fault| !setting.faults.contains(fault)) {
            return Err(format!(
                "{fault} makes no sense on {} from {from} with {} processes",
                rung.id, setting.processes
            ));
        }
        setting.faults = faults;
        Ok(setting)
    }
}

/// The faults that make sense. The end of a lease is something else than a pause only where a live process does not
/// renew it.
fn faults_of(plan: &GamePlan) -> Vec<FaultKind> {
    let is_pause = |fault: &FaultKind| {
        *fault == FaultKind::Lease && (plan.rung.lease != LeaseKind::Fixed || plan.users > 1)
    };
    let makes_sense = |fault: &FaultKind| plan.allows(*fault) && !is_pause(fault);
    FaultKind::ALL.iter().copied().filter(makes_sense).collect()
}

/// What is asked for, where it is not the usual.
#[derive(Debug, Clone, Default)]
pub struct SettingOptions {
    /// Attempts to buy.
    pub buyers: usize,
    /// Processes: one, or one for each actor.
    pub processes: Option<usize>,
    /// Where schedules begin.
    pub from: Option<InitialState>,
    /// What may happen.
    pub faults: Option<Vec<FaultKind>>,
}

/// Why a rung cannot be explored with so many buyers: "it …".
pub fn not_explorable(rung: &Rung, buyers: usize) -> Option<&'static str> {
    if buyers > 2 && rung.has_consumer() {
        return Some("has a consumer, which is the third actor beside two buyers");
    }
    // A mutex serves its waiters in the order in which they came, and so does the database.
    let in_order = matches!(rung.lock, LockKind::Mutex | LockKind::Database);
    let several_wait = rung.can(Capability::Wait) && !in_order;
    (buyers > 2 && several_wait).then_some(
        "lets several wait for one release, and which of them is first is left to chance",
    )
}

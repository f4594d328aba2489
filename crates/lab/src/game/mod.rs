//! A game: two or three buyers on one rung, its consumer where it has one, and somebody else is their scheduler, step
//! by step. `explore` walks through all schedules, `session` is played by a person, `lab replay --schedule` plays one.
//!
//! In reading order: `setting`, who takes part; `schedule`, the steps and their names; `play`, which steps are possible,
//! what each does, and what is broken when nobody can take one any more; `consumer`, the turns of a consumer; `faults`, the ends of leases, kills and pauses; `unpaid`, games that
//! begin with an order that was not paid.

mod consumer;
mod faults;
mod play;
mod schedule;
mod setting;
mod unpaid;

pub(crate) use play::{Game, Mover};
pub(crate) use schedule::{ACTOR_NAMES, CONSUMER, TIME};
pub use schedule::{MAX_STEPS, NoSchedule, Schedule, Step};
pub use setting::{
    FaultKind, GamePlan, InitialState, Setting, SettingOptions, can_be_killed, can_be_paused,
    can_end_lease, not_explorable,
};

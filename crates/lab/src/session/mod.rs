//! A session: two buyers on one rung, its consumer where it has one, and somebody else is their scheduler,
//! step by step.
//!
//! `schedule` is what can be done next, `source_lines` where in the rung's file that leads; `play` does it on the
//! real servers, and `settle` what is left when nobody can take a step; `look` and `locks` read what is there then,
//! as `state`; `diff` is what the next rung changes.

mod diff;
mod locks;
mod look;
mod play;
mod schedule;
mod settle;
mod source_lines;
mod state;

pub use diff::{DiffLine, DiffPart, DiffTag, diff};
pub use locks::LockView;
pub use play::{LabSession, PlanOfSession, StepError, StepRefusal};
pub use schedule::{MAX_STEPS, NoSchedule, Schedule, ScheduleStep};
pub use settle::can_be_killed;
pub use state::{ActorView, BrokenPromise, OrderView, SessionEvent, SessionState, StockRow};

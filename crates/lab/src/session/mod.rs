//! A session: a game in which a person is the scheduler, and what there is to see of it after each step.
//!
//! `play` takes the steps, or says why one makes no sense; `tell` says what happened in them, and `source_lines` where
//! in the rung's file that leads; `look` and `locks` read what is there then, as `state`; `diff` is what the next rung
//! changes.

mod diff;
mod locks;
mod look;
mod play;
mod source_lines;
mod state;
mod tell;

pub use diff::{DiffLine, DiffPart, DiffTag, diff};
pub use locks::LockView;
pub use play::{LabSession, StepError, StepRefusal};
pub use state::{ActorView, BrokenPromise, OrderView, SessionEvent, SessionState, StockRow};

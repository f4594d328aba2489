//! `seckill ceiling`: is my number normal?
//!
//! In reading order: `options`, what was asked for; `run`, the whole of it; `rounds`, what is
//! measured and in which order; `testbed`, on what; the ceilings, `hot_row` (PostgreSQL) and
//! `lock_script` (Redis), by other people's programs (`child`); `sales`, the strategies over HTTP,
//! and the handler that they are compared with; `overload`; `figures`, what was found; `shares`,
//! what that is of what, and what it should be; `machine`, on what it ran; `report` and `text_table`,
//! how all of it is told.

mod child;
mod figures;
mod hot_row;
mod lock_script;
mod machine;
mod options;
mod overload;
mod report;
mod results;
mod rounds;
mod run;
mod sales;
mod shares;
mod testbed;
mod text_table;

pub use options::{MeasureArgs, Options};
pub use report::CeilingReport;
pub use rounds::counted;
pub use run::measure;
pub use testbed::Setup;

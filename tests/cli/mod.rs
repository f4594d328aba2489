//! The commands of the server's program.

mod audit;
mod commands;
mod doctor;
mod refusals;
pub mod serving;

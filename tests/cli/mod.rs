//! The commands of the server's program.

mod audit;
mod commands;
mod doctor;
mod refusals;
mod secret_files;
mod serving;

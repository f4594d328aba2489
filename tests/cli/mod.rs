//! The commands of the server's program.

mod audit;
mod commands;
mod doctor;
mod people;
mod pruning;
mod refusals;
mod secret_files;
mod serving;

//! The tests of `seckill play`, of the game and the course in a browser, and of the program as a whole.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod board;
mod course_pages;
mod demonstration;
mod explored;
mod hmdp;
mod lab_game;
mod lab_page;
mod lab_player;
mod lab_win;
mod program_golden;
mod screenshots;
mod stage;

//! The `seckill` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("keep-servers") => seckill::cli::keep_servers::run(),
        _ => ExitCode::FAILURE,
    }
}

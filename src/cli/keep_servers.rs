//! `seckill keep-servers`, hidden: the process that owns the private servers.

use std::process::ExitCode;

/// Runs the supervisor until its owner ends. See [`crate::embedded`].
#[must_use]
pub fn run() -> ExitCode {
    crate::embedded::keep_servers()
}

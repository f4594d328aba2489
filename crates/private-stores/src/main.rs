//! `private-stores`: the process that owns the private servers. Programs of this workspace start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    private_stores::keep_servers()
}

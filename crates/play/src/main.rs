//! The `seckill-lab` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    seckill_play::main()
}

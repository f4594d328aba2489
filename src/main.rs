//! The `seckill` binary: everything is in the library's [`seckill::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    seckill::cli::main()
}

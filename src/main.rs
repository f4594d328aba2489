//! The `seckill` binary: everything is in the library's [`seckill::cli`].

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A tenth less of the server's time for a purchase than with the system's (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    seckill::cli::main()
}

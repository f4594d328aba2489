//! The `seckill` binary: everything is in the library's [`seckill::cli`].

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// With the system's a purchase takes a tenth more of the server's time, and what an overload took is
/// not given back (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    seckill::cli::main()
}

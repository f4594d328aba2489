//! The `seckill` binary: everything is in the library's [`seckill::cli`].

use std::process::ExitCode;

/// Many threads allocating small, short-lived things is what it is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    seckill::cli::main()
}

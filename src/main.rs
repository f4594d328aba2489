//! The `seckill` binary.
fn main() {}

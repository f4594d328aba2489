//! The `seckill` binary.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("crowd") => seckill::cli::crowd::run().await,
        _ => Ok(()),
    }
}

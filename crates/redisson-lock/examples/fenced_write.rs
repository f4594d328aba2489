//! A holder that sleeps past its lease, and the store that refuses its write by the fencing token.
//!
//! `cargo run -p redisson-lock --example fenced_write [redis://127.0.0.1/]`

use std::error::Error;
use std::time::Duration;

use redisson_lock::connection::Redis;
use redisson_lock::{Guard, Lease, LockClient, LockOptions};
use tokio::time::sleep;

/// A row of a database: `update invoices set state = $2, fence = $1 where id = 7 and fence < $1`.
#[derive(Default)]
struct Invoice {
    state: String,
    fence: u64,
}

impl Invoice {
    /// How many rows were changed.
    fn update(&mut self, fence: u64, state: &str) -> u64 {
        if self.fence >= fence {
            return 0;
        }
        (self.fence, self.state) = (fence, state.to_owned());
        1
    }
}

fn token(guard: &Guard) -> Result<u64, &'static str> {
    guard.fence().ok_or("the lock was taken without a fencing token")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    let anna = LockClient::new(Redis::new(&url)?, LockOptions::default());
    let ben = LockClient::new(Redis::new(&url)?, LockOptions::default());
    let name = format!("example:fenced_write:{}", std::process::id());
    let mut invoice = Invoice::default();

    // Not renewed: the lease ends while Anna sleeps, as it does for a process that is paused.
    let lease = Lease::Fixed(Duration::from_millis(300));
    let annas = anna.lock(&name).fenced().lease(lease).acquire().await?;
    println!("Anna holds the lock with the token {}", token(&annas)?);
    println!("Anna looks whether she has lost it: {}; then she falls asleep", annas.is_lost());
    sleep(Duration::from_millis(400)).await;

    let bens = ben.lock(&name).fenced().acquire().await?;
    println!("Ben holds the lock with the token {}", token(&bens)?);
    let rows = invoice.update(token(&bens)?, "sent by Ben");
    println!("Ben writes: {rows} row changed");

    println!("Anna wakes up; she has looked already, and writes");
    let rows = invoice.update(token(&annas)?, "cancelled by Anna");
    assert_eq!(rows, 0, "the store compares the tokens");
    println!("Anna writes: {rows} rows changed, the invoice is {:?}", invoice.state);

    bens.release().await?;
    anna.shutdown().await;
    ben.shutdown().await;
    // The counter of a fenced lock has no end. This name is never used again.
    anna.forget_fencing_counter(&name, Duration::ZERO).await?;
    Ok(())
}

//! Work that takes longer than the lease, a waiter that sleeps until the release, and a holder that loses
//! its lock and is told.
//!
//! `cargo run -p redisson-lock --example wait_and_renew [redis://127.0.0.1/]`

use std::error::Error;
use std::time::Duration;

use redisson_lock::connection::Redis;
use redisson_lock::{Lease, LockClient, LockOptions};
use tokio::time::{Instant, sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    // A short lease, so that there is something to see. It is renewed every 200 ms.
    let lease = Lease::Renewed(Duration::from_millis(600));
    let options = LockOptions::default().lease(lease);
    let anna = LockClient::new(Redis::new(&url)?, options);
    let ben = LockClient::new(Redis::new(&url)?, options);
    let name = format!("example:wait_and_renew:{}", std::process::id());

    let begun = Instant::now();
    let at = || format!("{:>4} ms", begun.elapsed().as_millis());
    let annas = anna.lock(&name).acquire().await?;
    println!("{}  Anna holds the lock, with a lease of 600 ms", at());

    let in_vain = ben.lock(&name).acquire_within(Duration::from_millis(300)).await?;
    assert!(in_vain.is_none(), "two hold one lock");
    println!("{}  Ben has waited 300 ms in vain, and waits again without a limit", at());

    let waiting = tokio::spawn(ben.lock(&name).acquire());
    sleep(Duration::from_millis(1_200)).await;
    println!("{}  Anna's work took longer than the lease, which was renewed", at());
    annas.release().await?;
    println!("{}  Anna has released it", at());
    let bens = waiting.await??;
    println!("{}  Ben was woken and holds it", at());

    // The last resort of an operator. Ben's next renewal finds out.
    anna.lock(&name).force_release().await?;
    println!("{}  somebody breaks the lock open while Ben works", at());
    tokio::select! {
        () = sleep(Duration::from_secs(5)) => unreachable!("a loss is told within the lease"),
        () = bens.lost() => println!("{}  Ben is told that the lock is lost", at()),
    }
    match bens.release().await {
        Ok(()) => unreachable!("it was lost"),
        Err(error) => println!("{}  Ben's release: {error}", at()),
    }
    anna.shutdown().await;
    ben.shutdown().await;
    Ok(())
}

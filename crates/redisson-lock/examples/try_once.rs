//! Two clients try for one lock; a third asks for nothing and looks.
//!
//! `cargo run -p redisson-lock --example try_once [redis://127.0.0.1/]`

use std::error::Error;

use redisson_lock::connection::Redis;
use redisson_lock::{LockClient, LockOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    // Two clients, as in two processes.
    let anna = LockClient::new(Redis::new(&url)?, LockOptions::default());
    let ben = LockClient::new(Redis::new(&url)?, LockOptions::default());
    let name = format!("example:try_once:{}", std::process::id());

    let Some(guard) = anna.lock(&name).try_acquire().await? else {
        return Err(format!("the lock {name:?} is held already").into());
    };
    println!("Anna holds the lock for {:.1?} and longer: it is renewed", guard.validity());

    match ben.lock(&name).try_acquire().await? {
        Some(_) => unreachable!("two hold one lock"),
        None => println!("Ben tries once: somebody else holds it"),
    }
    if let Some(state) = ben.lock(&name).state().await? {
        println!("Ben looks: {} holds it, for {:.1?} yet", state.owner, state.remaining);
    }

    guard.release().await?;
    println!("Anna has released it");

    let Some(guard) = ben.lock(&name).try_acquire().await? else {
        return Err("the lock is held although it was released".into());
    };
    println!("Ben tries again and holds it");
    drop(guard);
    // Dropped, it is given back in the background; a shutdown waits for that.
    ben.shutdown().await;
    let held = anna.lock(&name).is_locked().await?;
    println!("Ben has dropped his guard and shut down; is the lock held? {held}");
    anna.shutdown().await;
    Ok(())
}

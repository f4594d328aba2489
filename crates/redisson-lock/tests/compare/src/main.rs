//! Pairs of acquire and release on one task, and what it costs Redis when 50 wait: this crate beside others, in
//! alternating rounds against one Redis, whose URL is the argument. A table in Markdown.

use std::time::{Duration, Instant};

use redisson_lock::connection::Redis;
use redisson_lock::{LockClient, LockOptions};

const ROUNDS: usize = 7;
const PAIRS: u32 = 2_000;
const WAITERS: usize = 50;
const HELD: Duration = Duration::from_secs(5);
const NAMES: [&str; 4] = ["redisson-lock", "rlock 0.2", "rslock 0.10", "redlock 2.0"];

type Any = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Locks {
    ours: LockClient,
    rlock: rlock::async_lock::RLock,
    rslock: rslock::LockManager,
    redlock: redlock::RedLock,
}

impl Locks {
    /// Takes the lock, holds it for a while, and gives it back.
    async fn pair(&self, which: usize, name: &str, hold: Duration) -> Result<(), Any> {
        match which {
            0 => {
                let guard = self.ours.lock(name).acquire().await?;
                held_for(hold).await;
                guard.release().await?;
            }
            1 => {
                let mut guard = self.rlock.acquire_mutex(name).await?;
                held_for(hold).await;
                guard.release().await?;
            }
            2 => loop {
                // Three tries of its own, and an error.
                if let Ok(lock) = self.rslock.lock(name, Duration::from_secs(30)).await {
                    held_for(hold).await;
                    self.rslock.unlock(&lock).await;
                    break;
                }
            },
            _ => {
                let (redlock, name) = (self.redlock.clone(), name.to_owned());
                // It blocks its thread.
                let pair = move || {
                    let guard = redlock.acquire(name.as_bytes(), 30_000);
                    std::thread::sleep(hold);
                    drop(guard);
                };
                tokio::task::spawn_blocking(pair).await?;
            }
        }
        Ok(())
    }
}

/// A timer of no time would take a millisecond.
async fn held_for(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

async fn commands(connection: &mut redis::aio::MultiplexedConnection) -> Result<u64, Any> {
    let info: String = redis::cmd("INFO").arg("stats").query_async(connection).await?;
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(line.ok_or("no such line")?.trim().parse()?)
}

#[tokio::main]
async fn main() -> Result<(), Any> {
    let url = std::env::args().nth(1).ok_or("the URL of a Redis, please")?;
    let mut connection = redis::Client::open(&*url)?.get_multiplexed_async_connection().await?;
    let locks = Locks {
        ours: LockClient::new(Redis::new(&url)?, LockOptions::default()),
        rlock: rlock::async_lock::RLock::new(&*url).await?,
        rslock: rslock::LockManager::new(vec![url.as_str()]),
        redlock: redlock::RedLock::new(vec![url.as_str()]),
    };
    let mut rates = [const { Vec::new() }; NAMES.len()];
    for round in 0..=ROUNDS {
        for (which, rates) in rates.iter_mut().enumerate() {
            let begun = Instant::now();
            for _ in 0..PAIRS {
                locks.pair(which, &format!("compare:{which}"), Duration::ZERO).await?;
            }
            // The first round warms up.
            if round > 0 {
                rates.push(f64::from(PAIRS) / begun.elapsed().as_secs_f64());
            }
        }
    }
    println!("| library | pairs/s, one task (lowest and highest of {ROUNDS} rounds) | of `rlock` | commands while {WAITERS} wait for {} s |", HELD.as_secs());
    println!("| --- | ---: | ---: | ---: |");
    rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    let peer = rates[1][ROUNDS / 2];
    for (which, rates) in rates.iter().enumerate() {
        let name = format!("compare:held:{which}");
        let holder = tokio::spawn({
            let (locks, name) = (locks.clone(), name.clone());
            async move { locks.pair(which, &name, HELD + Duration::from_secs(1)).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let (locks, name) = (locks.clone(), name.clone());
                tokio::spawn(async move { locks.pair(which, &name, Duration::ZERO).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = commands(&mut connection).await?;
        tokio::time::sleep(HELD).await;
        // Less the two questions.
        let sent = (commands(&mut connection).await? - before).saturating_sub(1);
        holder.await??;
        for waiter in waiters {
            waiter.abort();
        }
        let median = rates[ROUNDS / 2];
        println!(
            "| {} | {median:.0} ({:.0}–{:.0}) | {:.2} | {sent} |",
            NAMES[which], rates[0], rates[ROUNDS - 1], median / peer
        );
    }
    Ok(())
}

//! What is found in Redis.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use chrono::NaiveDate;
use redis_link::Redis;
use redisson_lock::{Lease, LockClient, LockOptions};
use tokio::time::Instant;

use super::Finding;
use crate::model::UserId;
use crate::store::Keys;
use crate::store::login_limits::{self, Counted, UsedUp};

/// A purchase waits for less (crate `redis-link`).
const SLOW_CONNECTION: Duration = Duration::from_millis(400);

/// The oldest version that is tested.
const OLDEST_VERSION: u32 = 7;
/// Nobody waits for the lock that is tried.
const LOCKED_FOR: Duration = Duration::from_secs(5);

/// Asks the server behind `redis`.
/// `limits`: those of login codes that people use up for each other.
pub async fn look(redis: &Redis, keys: &Keys, limits: &[Counted]) -> Vec<Finding> {
    let began = Instant::now();
    if let Err(error) = redis.ping_masters().await {
        return vec![Finding::broken("Redis", error.to_string())];
    }
    let connected = began.elapsed();
    let mut found = match redis.query::<String>(redis::cmd("INFO").arg("everything")).await {
        Ok(text) => vec![server(&info(&text)), memory(&info(&text))],
        Err(error) => vec![Finding::note(
            "Redis",
            format!("INFO is not allowed ({error}): version and memory are unknown"),
        )],
    };
    let ping = async || redis.ping().await;
    let connection = Finding::connection("Redis connection", connected, SLOW_CONNECTION, ping);
    found.push(connection.await);
    let rights = "Redis rights";
    match try_all(redis, keys, limits).await {
        Ok(used_up) => {
            found.extend([Finding::fine(rights, "all that serve needs"), logins(used_up)]);
        }
        Err(error) => {
            found.push(Finding::broken(rights, format!("{error} (docs/reference.md has the ACL)")));
        }
    }
    found
}

/// `name:value` by line.
fn info(text: &str) -> HashMap<&str, &str> {
    text.lines().filter_map(|line| line.trim().split_once(':')).collect()
}

fn server(info: &HashMap<&str, &str>) -> Finding {
    let about = "Redis";
    let version = info.get("redis_version").copied().unwrap_or("unknown");
    let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
    if major.is_some_and(|major| major < OLDEST_VERSION) {
        return Finding::broken(about, format!("{version}: 7 or later is needed"));
    }
    if info.get("role") == Some(&"slave") {
        let words = format!("{version}, a replica, which takes no writes: name the master");
        return Finding::broken(about, words);
    }
    Finding::fine(about, version)
}

fn memory(info: &HashMap<&str, &str>) -> Finding {
    let about = "Redis memory";
    let policy = info.get("maxmemory_policy").copied().unwrap_or("unknown");
    let used: u64 = number(info, "used_memory");
    let most: u64 = number(info, "maxmemory");
    if most == 0 {
        return Finding::fine(about, format!("{} MB, without a limit", used >> 20));
    }
    let words = format!("{} of {} MB, {policy}", used >> 20, most >> 20);
    if policy != "noeviction" {
        let words =
            format!("{words}: locks and order ids can be evicted; set maxmemory-policy noeviction");
        return Finding::danger(about, words);
    }
    if used > most / 10 * 9 {
        return Finding::danger(
            about,
            format!("{words}: almost full, purchases will be refused with 503"),
        );
    }
    Finding::fine(about, words)
}

fn number(info: &HashMap<&str, &str>, name: &str) -> u64 {
    info.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn logins(used_up: Option<UsedUp>) -> Finding {
    let about = "login codes";
    let Some((rate, wait)) = used_up else { return Finding::fine(about, "are sent") };
    let wait = humantime::format_duration(Duration::from_secs(wait.as_secs()));
    let whom = if rate.is_for_newcomers() { "who have not logged in before" } else { "at all" };
    let name = rate.name;
    let words = format!(
        "{name} is used up: for {wait} none is sent to people {whom}; raise SECKILL_LOGIN_LIMITS"
    );
    Finding::danger(about, words)
}

/// Nothing of it stays: a lock of a buyer whom there is not, nothing counted at the counter of a day that is long over,
/// and limits that are only looked at: returns the first that is used up. A script must be loadable, too: Redis forgets
/// those it has in a restart.
async fn try_all(
    redis: &Redis,
    keys: &Keys,
    limits: &[Counted],
) -> Result<Option<UsedUp>, Box<dyn Error + Send + Sync>> {
    redis.may_run_scripts().await?;
    let nobody = UserId::new(i64::MAX).unwrap_or_else(|| unreachable!("it is positive"));
    let options = LockOptions::default().lease(Lease::Fixed(LOCKED_FOR));
    let client = LockClient::new(redis.clone(), options);
    let locked = async {
        // `None`: another doctor has it.
        match client.lock(keys.order_lock(nobody)).try_acquire().await? {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    };
    let locked = locked.await;
    client.shutdown().await;
    locked?;
    let counter = keys.order_counter(NaiveDate::default());
    redis.query::<i64>(redis::cmd("INCRBY").arg(&counter).arg(0)).await?;
    redis.query::<i64>(redis::cmd("PEXPIRE").arg(&counter).arg(1_000)).await?;
    Ok(login_limits::first_used_up(redis, keys, limits).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn what_info_says_is_judged() {
        let level =
            |text: &str, judge: fn(&HashMap<&str, &str>) -> Finding| judge(&info(text)).level;
        assert_eq!(level("redis_version:7.0.15\r\n", server), Level::Fine);
        assert_eq!(level("redis_version:6.2.1\r\n", server), Level::Broken);
        assert_eq!(level("role:slave\r\n", server), Level::Broken);
        assert_eq!(level("role:master\r\n", server), Level::Fine);
        let full = "used_memory:9100000\nmaxmemory:10000000\nmaxmemory_policy:noeviction";
        assert_eq!(level(full, memory), Level::Danger);
        assert_eq!(level(&full.replace("9100000", "8900000"), memory), Level::Fine);
        assert_eq!(level(&full.replace("noeviction", "allkeys-lru"), memory), Level::Danger);
        assert_eq!(
            level("used_memory:1\nmaxmemory:0\nmaxmemory_policy:allkeys-lru", memory),
            Level::Fine
        );
    }
}

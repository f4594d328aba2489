//! What is found in Redis.

use std::collections::HashMap;
use std::time::Duration;

use chrono::NaiveDate;
use redis_link::Redis;
use redisson_lock::{Lease, LockClient, LockOptions};
use tokio::time::Instant;

use super::Finding;
use super::finding::{ROUND_TRIPS, SLOW_ROUND_TRIP};
use crate::model::UserId;
use crate::store::{Keys, LoginLimits, login_limits};

/// A purchase waits for less (crate `redis-link`).
const SLOW_CONNECTION: Duration = Duration::from_millis(400);

/// The oldest version that is tested.
const OLDEST_VERSION: u32 = 7;

/// Asks the servers behind `redis`, whose address is `url`.
pub async fn look(redis: &Redis, url: &str, keys: &Keys) -> Vec<Finding> {
    let began = Instant::now();
    if let Err(error) = redis.ping().await {
        return vec![Finding::broken("Redis", error.to_string())];
    }
    let connected = began.elapsed();
    let mut found = Vec::new();
    match redis.query::<String>(redis::cmd("INFO").arg("everything")).await {
        Ok(text) => found.extend(of_info(&info(&text))),
        Err(error) => found.push(Finding::note(
            "Redis",
            format!("INFO is not allowed ({error}): version, memory and persistence are unknown"),
        )),
    }
    found.push(connection(redis, connected).await);
    found.extend(idle_time(redis).await);
    found.push(topology(url));
    found.push(tls(url));
    found.push(scripts(redis).await);
    found.push(locks(redis, keys).await);
    found.push(order_ids(redis, keys).await);
    found.push(limits(redis, keys).await);
    found
}

/// How long a round trip takes on the connection that was `connected`: the shortest of a few.
async fn connection(redis: &Redis, connected: Duration) -> Finding {
    let about = "Redis connection";
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let sent_at = Instant::now();
        if let Err(error) = redis.ping().await {
            return Finding::broken(about, error.to_string());
        }
        shortest = shortest.min(sent_at.elapsed());
    }
    Finding::connection(about, (connected, shortest), (SLOW_CONNECTION, SLOW_ROUND_TRIP))
}

/// `name:value` by line.
fn info(text: &str) -> HashMap<&str, &str> {
    text.lines().filter_map(|line| line.trim().split_once(':')).collect()
}

fn of_info(info: &HashMap<&str, &str>) -> Vec<Finding> {
    vec![version(info), role(info), memory(info), persistence(info)]
}

fn version(info: &HashMap<&str, &str>) -> Finding {
    let version = info.get("redis_version").copied().unwrap_or("unknown");
    let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
    match major {
        Some(major) if major < OLDEST_VERSION => {
            Finding::broken("Redis", format!("{version}: 7 or later is needed"))
        }
        _ => Finding::fine("Redis", version),
    }
}

fn role(info: &HashMap<&str, &str>) -> Finding {
    match info.get("role") {
        Some(&"slave") => {
            Finding::broken("Redis role", "a replica, which takes no writes: name the master")
        }
        Some(role) => {
            let replicas = info.get("connected_slaves").copied().unwrap_or("0");
            Finding::fine("Redis role", format!("{role} with {replicas} replicas"))
        }
        None => Finding::note("Redis role", "unknown"),
    }
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
        return Finding::danger(about, format!("{words}: almost full, purchases will hear 503"));
    }
    Finding::fine(about, words)
}

fn number(info: &HashMap<&str, &str>, name: &str) -> u64 {
    info.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn persistence(info: &HashMap<&str, &str>) -> Finding {
    let about = "Redis persistence";
    match info.get("aof_enabled") {
        Some(&"1") => Finding::fine(about, "appendonly is on"),
        Some(_) => Finding::note(
            about,
            "appendonly is off: a restart forgets locks, login codes and the order id's counter (no promise is broken)",
        ),
        None => Finding::note(about, "unknown"),
    }
}

/// Where the server ends idle connections, and tells it.
async fn idle_time(redis: &Redis) -> Option<Finding> {
    let answer: Vec<String> =
        redis.query(redis::cmd("CONFIG").arg("GET").arg("timeout")).await.ok()?;
    let timeout_s = answer.last().filter(|timeout_s| *timeout_s != "0")?;
    let words = format!("the server ends idle connections after {timeout_s} s: they are made anew");
    Some(Finding::note("Redis idle time", words))
}

fn topology(url: &str) -> Finding {
    let scheme = url.split(':').next().unwrap_or_default();
    let words = if scheme.ends_with("cluster") {
        "a cluster"
    } else if scheme.ends_with("sentinel") {
        "the master that sentinels name"
    } else {
        "one server: with it goes selling; sentinels or a cluster take over by themselves"
    };
    Finding::fine("Redis topology", words)
}

fn tls(url: &str) -> Finding {
    if url.starts_with("rediss") {
        return Finding::fine("Redis TLS", "on");
    }
    Finding::note("Redis TLS", "none: fine on a machine or a network of your own, else rediss://")
}

/// Whether a script can be sent that Redis has forgotten, in a restart for one.
async fn scripts(redis: &Redis) -> Finding {
    let about = "Redis scripts";
    match redis.may_run_scripts().await {
        Ok(()) => Finding::fine(about, "can be loaded"),
        Err(error) => Finding::broken(about, format!("{error} (docs/reference.md has the ACL)")),
    }
}

/// Takes and gives back a lock under the name of a buyer whom there is not.
async fn locks(redis: &Redis, keys: &Keys) -> Finding {
    let about = "Redis locks";
    let nobody = UserId::new(i64::MAX).unwrap_or_else(|| unreachable!("it is positive"));
    let options = LockOptions::default().lease(Lease::Fixed(std::time::Duration::from_secs(5)));
    let client = LockClient::new(redis.clone(), options);
    let tried = async {
        let guard = client.lock(keys.order_lock(nobody)).try_acquire().await?;
        match guard {
            Some(guard) => guard.release().await.map(|()| true),
            None => Ok(false),
        }
    };
    let finding = match tried.await {
        Ok(true) => Finding::fine(about, "one was taken and released"),
        Ok(false) => Finding::note(about, "another doctor holds the one that is tried"),
        Err(error) => Finding::broken(about, format!("{error} (docs/reference.md has the ACL)")),
    };
    client.shutdown().await;
    finding
}

/// Counts nothing at the counter of a day that is long over, and lets it go.
async fn order_ids(redis: &Redis, keys: &Keys) -> Finding {
    let about = "Redis order ids";
    let counter = keys.order_counter(NaiveDate::default());
    let tried = async {
        redis.query::<i64>(redis::cmd("INCRBY").arg(&counter).arg(0)).await?;
        redis.query::<i64>(redis::cmd("PEXPIRE").arg(&counter).arg(1_000)).await
    };
    match tried.await {
        Ok(_) => Finding::fine(about, "can be drawn"),
        Err(error) => Finding::broken(about, format!("{error} (docs/reference.md has the ACL)")),
    }
}

/// Asks whether a login would be let in; what is only asked writes nothing.
async fn limits(redis: &Redis, keys: &Keys) -> Finding {
    let about = "Redis login limits";
    let all = [(LoginLimits::default()["codes-in-all"], "all".to_owned())];
    match login_limits::first_used_up(redis, keys, &all).await {
        Ok(_) => Finding::fine(about, "can be counted"),
        Err(error) => Finding::broken(about, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn what_info_says_is_judged() {
        let level =
            |text: &str, judge: fn(&HashMap<&str, &str>) -> Finding| judge(&info(text)).level;
        assert_eq!(level("redis_version:7.0.15\r\n", version), Level::Fine);
        assert_eq!(level("redis_version:6.2.1\r\n", version), Level::Broken);
        assert_eq!(level("role:slave\r\n", role), Level::Broken);
        assert_eq!(level("role:master\r\nconnected_slaves:1\r\n", role), Level::Fine);
        let full = "used_memory:9100000\nmaxmemory:10000000\nmaxmemory_policy:noeviction";
        assert_eq!(level(full, memory), Level::Danger);
        assert_eq!(level(&full.replace("9100000", "8900000"), memory), Level::Fine);
        assert_eq!(level(&full.replace("noeviction", "allkeys-lru"), memory), Level::Danger);
        assert_eq!(
            level("used_memory:1\nmaxmemory:0\nmaxmemory_policy:allkeys-lru", memory),
            Level::Fine
        );
        assert_eq!(level("aof_enabled:0", persistence), Level::Note);
        assert_eq!(level("", persistence), Level::Note);
    }
}

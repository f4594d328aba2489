//! Locks in memory, for tests of code that takes them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisFuture, RedisResult, Script, Value};
use redis_link::{AnyConnection, LentConnection};
use tokio::time::Instant;

/// A Redis that is only in the memory of a test, for [`Redis::over`](redis_link::Redis::over). It knows plain locks,
/// reentrant and fenced ones; what it does not know (fair locks, replicas, lists of locks) is an error. Leases end by
/// the clock of tokio, which a test may pause. A waiter tries once a second, since nothing is published.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), redisson_lock::LockError> {
/// use redisson_lock::connection::Redis;
/// use redisson_lock::fake::FakeRedis;
/// use redisson_lock::{LockClient, LockOptions};
///
/// let fake = FakeRedis::default();
/// let locks = LockClient::new(Redis::over(fake.clone()), LockOptions::default());
/// let guard = locks.lock("invoice:7").acquire().await?;
/// assert!(locks.lock("invoice:7").try_acquire().await?.is_none());
/// fake.forget("invoice:7"); // as a restart without data does
/// guard.lost().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct FakeRedis {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<String, Held>,
    token: i64,
    is_down: bool,
}

#[derive(Debug)]
struct Held {
    owner: String,
    holds: i64,
    token: i64,
    until: Instant,
}

/// The scripts that it knows, by their hashes.
static HASHES: LazyLock<HashMap<String, &str>> = LazyLock::new(|| {
    let scripts = [
        ("acquire", include_str!("../lua/acquire.lua")),
        ("inspect", include_str!("../lua/inspect.lua")),
        ("release", include_str!("../lua/release.lua")),
        ("renew", include_str!("../lua/renew.lua")),
    ];
    scripts.map(|(name, text)| (Script::new(text).get_hash().to_owned(), name)).into()
});

impl FakeRedis {
    /// Nobody holds the lock any more; its holder is told at the next renewal, as of a real one.
    pub fn forget(&self, name: &str) {
        self.state().held.remove(name);
    }

    /// `true`: from now on there is no connection to it, and each request fails with
    /// [`Unavailable`](redis_link::LinkError::Unavailable), since nothing was sent. `false`: there is one again, and
    /// what was held is held still, unless its lease has ended.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, command: &Cmd) -> RedisResult<Value> {
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        });
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match *words {
            ["PING"] => Ok(Value::SimpleString("PONG".to_owned())),
            ["LLEN", _] => Ok(Value::Int(0)),
            ["EVALSHA", hash, count, ref rest @ ..] if HASHES.contains_key(hash) => {
                let (keys, args) = rest.split_at(count.parse().unwrap_or(0));
                Ok(self.state().run(HASHES[hash], keys, args))
            }
            _ => Err((ErrorKind::Client, "the fake knows plain locks alone").into()),
        }
    }
}

impl State {
    /// What the script answers. Answers are never lost here: the record of an owner's grants would tell nothing.
    fn run(&mut self, script: &str, keys: &[&str], args: &[&str]) -> Value {
        let now = Instant::now();
        self.held.retain(|_, held| held.until > now);
        let name = keys[0];
        let after = |ms: &str| now + Duration::from_millis(ms.parse().unwrap_or(0));
        let left = |held: &Held| held.until.duration_since(now).as_millis() as i64;
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let taken = self.held.get(name).map(left);
        let mine = self.held.get_mut(name).filter(|held| args.get(1) == Some(&&*held.owner));
        match (script, mine) {
            ("inspect", _) => Value::Array(match self.held.get(name) {
                Some(held) => {
                    let holder = vec![text(&held.owner), text(&held.holds.to_string())];
                    vec![Value::Int(left(held)), Value::Array(holder)]
                }
                None => vec![Value::Int(-2), Value::Array(Vec::new())],
            }),
            ("acquire", None) if taken.is_some() => {
                Value::Array(vec![Value::Int(0), Value::Int(taken.unwrap_or_default()), text("")])
            }
            ("acquire", mine) => {
                let (until, is_fenced) = (after(args[0]), keys.len() > 2);
                let (holds, token) = match mine {
                    Some(held) => {
                        (held.holds, held.until) = (held.holds + 1, held.until.max(until));
                        (held.holds, held.token)
                    }
                    None => {
                        self.token += 1;
                        let (owner, token) = (args[1].to_owned(), self.token);
                        self.held.insert(name.to_owned(), Held { owner, holds: 1, token, until });
                        (1, token)
                    }
                };
                let token = if is_fenced { token.to_string() } else { String::new() };
                Value::Array(vec![Value::Int(1), Value::Int(holds), text(&token)])
            }
            ("renew", mine) => {
                let held = mine.map(|held| held.until = held.until.max(after(args[0])));
                Value::Int(held.map_or(0, |()| 1))
            }
            (_, None) => Value::Int(-1),
            (_, Some(held)) => {
                held.holds -= 1;
                let holds = held.holds;
                match args[6] {
                    _ if holds > 0 => held.until = held.until.max(after(args[0])),
                    "0" => drop(self.held.remove(name)),
                    // Held by nobody, for a while: release.lua.
                    kept => {
                        (held.owner, held.holds) = (held.owner.replace(':', ":-"), 1);
                        held.until = after(kept);
                    }
                }
                Value::Int(holds)
            }
        }
    }
}

impl AnyConnection for FakeRedis {
    fn lend(
        &self,
    ) -> BoxFuture<'_, Result<LentConnection<'_>, Box<dyn std::error::Error + Send + Sync>>> {
        let lent: LentConnection<'_> = Box::new(self.clone());
        let is_down = self.state().is_down;
        Box::pin(ready(if is_down { Err("the fake is down".into()) } else { Ok(lent) }))
    }
}

impl ConnectionLike for FakeRedis {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(ready(self.answer(command)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(ready(pipeline.cmd_iter().map(|command| self.answer(command)).collect()))
    }

    fn get_db(&self) -> i64 {
        0
    }
}

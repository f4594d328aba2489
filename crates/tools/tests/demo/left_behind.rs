//! Commands that are ended in the middle leave nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use futures_util::{StreamExt, stream};
use nix::sys::signal::Signal::{self, SIGINT, SIGKILL, SIGTERM};
use sqlx::PgPool;
use tokio::process::Child;
use tokio::sync::SemaphorePermit;

use super::{AT_ONCE, ended_by, line, said_by};
use testkit::processes::{descendants_of, is_alive, living_in, place, seckill};
use testkit::servers;
use testkit::wait::eventually;

/// Too large to end soon, with the lab's server beside it: two nodes, the lab, the crowd, the supervisor and both
/// servers at least.
const DEMO: &str = "demo --stock 20000 --users 20000 --against r01";
const AGAINST: &str = "demo --stock 2000 --users 2000 --attempts 2 --against r01";
const WATCHED: &str = "demo --stock 20000 --users 20000 --listen 127.0.0.1:0";
const CEILING: &str = "ceiling --only refusals --rounds 100 --duration 1s";

/// A command, a line that it has said in the middle, a program below it, how many there are, and how it ends.
type Ended = (&'static str, &'static str, &'static str, usize, Signal, Option<i32>);

const ENDED: [Ended; 6] = [
    (DEMO, "The rush", "redis-server", 7, SIGINT, Some(130)),
    (DEMO, "The rush", "redis-server", 7, SIGTERM, Some(130)),
    (DEMO, "The rush", "redis-server", 7, SIGKILL, None),
    (WATCHED, "Board: ", "redis-server", 3, SIGINT, Some(130)),
    (CEILING, "", "wrk", 3, SIGINT, Some(130)),
    (CEILING, "", "wrk", 3, SIGKILL, None),
];

/// Runs a command, on these servers or on its own, until it says a line that begins so. Its turn is over when the test
/// lets go of it.
async fn in_the_middle(
    command_line: &str,
    begins: &str,
    place: &Path,
    urls: Option<(&str, &str)>,
) -> (Child, SemaphorePermit<'static>) {
    let turn = AT_ONCE.acquire().await.unwrap();
    let mut command = seckill(&command_line.split(' ').collect::<Vec<_>>());
    command.env("TMPDIR", place).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some((database, redis)) = urls {
        command.env("DATABASE_URL", database).env("REDIS_URL", redis);
    }
    let mut child = command.spawn().unwrap();
    let mut said = said_by(&mut child);
    line(&mut said, begins).await;
    // Reads on, so that nobody is ended by a pipe without a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
    (child, turn)
}

async fn ended_in_the_middle((command_line, begins, program, processes, signal, status): Ended) {
    let place = place();
    let (mut child, _turn) = in_the_middle(command_line, begins, place.path(), None).await;
    let pid = child.id().unwrap();
    let mut started = BTreeSet::new();
    eventually("it is in the middle", async || {
        let below = descendants_of(pid);
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let runs = below.iter().any(|pid| name(pid).is_ok_and(|name| name.trim() == program));
        started.extend(below);
        runs && started.len() >= processes
    })
    .await;
    assert!(child.try_wait().unwrap().is_none(), "{command_line} was over too soon");

    let ended = ended_by(signal, &mut child).await;
    assert_eq!(ended.code(), status, "{command_line}: {signal}");
    eventually("all that it started is gone", async || {
        started.iter().all(|pid| !is_alive(*pid)) && living_in(place.path()).is_empty()
    })
    .await;
    // A ceiling is measured in directories of its own, which a kill leaves.
    let is_empty = async || std::fs::read_dir(place.path()).unwrap().count() == 0;
    eventually("no directory is left", async || command_line == CEILING || is_empty().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn what_is_interrupted_told_to_end_or_killed_leaves_nothing_behind() {
    stream::iter(ENDED.map(ended_in_the_middle)).buffer_unordered(2).collect::<()>().await;
}

/// On servers that are the user's, nobody else would ever drop the lab's scratch databases.
#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_ended_while_the_lab_sells_leaves_no_scratch_database() {
    let servers = servers::own().await;
    let urls = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let pool = PgPool::connect(urls.0).await.unwrap();
    let count = "select count(*) from pg_database where datname like 'seckill\\_lab\\_%'";
    let databases = async || sqlx::query_scalar::<_, i64>(count).fetch_one(&pool).await.unwrap();
    let place = place();
    for signal in [SIGINT, SIGTERM] {
        // The lab makes its databases first: it has all of the sale before it when the signal comes.
        let (mut demo, _turn) = in_the_middle(AGAINST, "", place.path(), Some(urls)).await;
        eventually("the lab has its scratch databases", async || databases().await == 2).await;
        assert_eq!(ended_by(signal, &mut demo).await.code(), Some(130));
        assert_eq!(databases().await, 0, "{signal}");
    }
    pool.close().await;
    servers::ended(servers).await;
}

//! `seckill lock`: the lock from a shell.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::world::World;
use testkit::processes::is_alive;
use testkit::program::{Program, Ran, finished, ran};
use testkit::wait::{eventually, must};

/// What a command under the lock says first.
struct Running {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts a shell script under the lock and waits for its first line.
    async fn start(program: &Program, arguments: &[&str], script: &str) -> (Self, String) {
        let all = [&["lock", "run"], arguments, &["--", "sh", "-c", script]].concat();
        let mut command = program.command(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, lines };
        let first = running.line().await.unwrap();
        (running, first)
    }

    async fn line(&mut self) -> Option<String> {
        must("the command says something", self.lines.next_line()).await.unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().unwrap().cast_signed()), signal).unwrap();
    }

    async fn ended(self) -> Ran {
        must("the program ends", self.child.wait_with_output()).await.unwrap().into()
    }
}

/// A command that goes on until it is told not to.
const UNTIL_TOLD: &str = "trap 'echo told; exit 3' TERM; echo begun; while :; do sleep 0.05; done";

#[tokio::test]
async fn the_exit_status_is_the_commands_own_and_the_lock_is_free_again() {
    let (world, program, name) = World::with_program().await;
    let ages = Duration::MAX.as_secs().to_string() + "s";
    for (arguments, status, stdout, refusal) in [
        (&["--", "sh", "-c", "exit 0"][..], 0, "", ""),
        (&["--", "sh", "-c", "exit 7"], 7, "", ""),
        (&["--", "sh", "-c", "kill -KILL $$"], 137, "", ""),
        (&["--", "/no/such/file"], 127, "", "/no/such/file"),
        (&["--", "/etc/passwd"], 126, "", "/etc/passwd"),
        // It needs no dashes before it, and keeps its own options.
        (&["--wait", "1s", "echo", "--wait", "-n", "in"], 0, "--wait -n in\n", ""),
        (&["--wait", "1s", "--", "echo", "--wait", "-n", "in"], 0, "--wait -n in\n", ""),
        // The limit of a wait is a limit of patience, not of a clock.
        (&["--wait", &ages, "--", "echo", "in"], 0, "in\n", ""),
    ] {
        let ran = program.run(&[&["lock", "run", &name], arguments].concat()).await;
        if refusal.is_empty() {
            assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (status, stdout, ""));
        } else {
            ran.refused(status, refusal);
        }
        assert!(!world.exists(&name).await);
    }
}

#[tokio::test]
async fn what_makes_no_sense_or_finds_no_redis_is_refused_in_a_sentence() {
    let redis = format!("REDIS_URL={}", testkit::servers::redis_url().await);
    let huge = format!("run {} -- true", "n".repeat(513));
    let (redis, huge) = (redis.as_str(), huge.as_str());
    let nowhere = "REDIS_URL=redis://127.0.0.1:1";
    let several = "it names several hosts: begin it with redis+cluster://";
    for (variables, arguments, status, words) in [
        (redis, "run '' -- true", 2, "1 to 512 bytes"),
        (redis, huge, 2, "1 to 512 bytes"),
        (redis, "inspect ''", 2, "1 to 512 bytes"),
        (redis, "force-release '' --yes", 2, "1 to 512 bytes"),
        (redis, "run n --lease 0s -- true", 2, "a lease lasts from"),
        (redis, "run n --lease 100years -- true", 2, "a lease lasts from"),
        (redis, "run n --lease soon -- true", 2, "--lease"),
        (redis, "run n --at-least 31s -- true", 2, "is longer than the lease of"),
        (redis, "run n --at-least 25h --lease 24h -- true", 2, "is longer than the lease of"),
        (redis, "run n --wait=-1s -- true", 2, "--wait"),
        (redis, "run n", 2, "COMMAND"),
        (redis, "run n --wiat 1s true", 2, "unexpected argument '--wiat'"),
        (redis, "tokens --yes", 2, "--remove-idle"),
        ("", "run n -- true", 2, "--redis-url"),
        (nowhere, "run n --wait 0s -- true", 69, "connection refused by 127.0.0.1:1"),
        (nowhere, "inspect n", 1, "Redis is unavailable"),
        (nowhere, "force-release n --yes", 1, "Redis is unavailable"),
        (nowhere, "list", 1, "Redis is unavailable"),
        (nowhere, "tokens", 1, "Redis is unavailable"),
        ("REDIS_URL=redis://:secret@a:1,b:2", "inspect n", 2, several),
        ("REDIS_URL=rediss://a,b:2", "inspect n", 2, several),
        ("REDIS_URL=redis://a SECKILL_REDIS_CA=ca.pem", "inspect n", 2, "begins with rediss"),
        ("REDIS_URL=redis://a SECKILL_KEY_PREFIX=two", "list", 2, "with a : at its end"),
        ("REDIS_URL=redis://a 'SECKILL_KEY_PREFIX=a b:'", "list", 2, "with a : at its end"),
        ("REDIS_URL=redis://a SECKILL_KEY_PREFIX=*:", "list", 2, "with a : at its end"),
    ] {
        let ran = ran(&format!("{variables} seckill lock {arguments}")).await;
        ran.refused(status, words);
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_waits_for_the_other() {
    let (world, program, name) = World::with_program().await;
    let (holder, said) = Running::start(&program, &[&name], UNTIL_TOLD).await;
    assert_eq!(said, "begun");
    let command = program.command(&["lock", "run", &name, "--", "echo", "in"]);
    let waiting = tokio::spawn(finished(command));
    world.until_listeners(&name, 1).await;
    holder.signal(Signal::SIGTERM);
    let holder = holder.ended().await;
    assert_eq!(holder.status, 3, "the signal is passed on: {holder:?}");
    let waited = Ran::from(must("it gets in", waiting).await.unwrap());
    assert_eq!((waited.status, waited.stdout.as_str()), (0, "in\n"));
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_the_lock_it_runs_under_is_told_so_and_waits_for_no_longer_than_it_says()
 {
    let (world, program, name) = World::with_program().await;
    let other = format!("{name}:other");
    let own = program.command(&["lock"]).as_std().get_program().display().to_string();
    for (inner, wait, status) in [(&name, "", 2), (&name, "--wait 10ms", 75), (&other, "", 0)] {
        let script = format!("\"$0\" lock run {inner} {wait} -- true");
        let ran = program.run(&["lock", "run", &name, "--", "sh", "-c", &script, &own]).await;
        let words = if status == 2 { "runs under a lock" } else { "" };
        assert!(ran.status == status && ran.stderr.contains(words), "{ran:?}");
        assert!(!world.exists(&name).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_lock_is_lost_is_ended_also_one_that_will_not_listen() {
    let (world, program, name) = World::with_program().await;
    let deaf = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
    for (script, told) in [(UNTIL_TOLD, Some("told")), (deaf, None)] {
        let arguments = [&name, "--lease", "600ms", "--grace", "100ms"];
        let (mut running, _) = Running::start(&program, &arguments, script).await;
        world.ask::<()>(&["DEL", &name]).await;
        assert_eq!(running.line().await.as_deref(), told);
        let ran = running.ended().await;
        assert_eq!(ran.status, 70, "{ran:?}");
        assert!(ran.stderr.contains("was lost, the command is ended"), "{ran:?}");
    }
}

/// T1 for this lock: the holder is killed, and one lease later others get in. What it ran, and what that has
/// started, does not go on without the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_takes_its_command_along_and_keeps_nobody_out_for_ever() {
    let (world, program, name) = World::with_program().await;
    let with_a_child = format!("sleep 600 & echo $!; {UNTIL_TOLD}");
    let arguments = [&name, "--lease", "1s"];
    let (mut running, child) = Running::start(&program, &arguments, &with_a_child).await;
    assert_eq!(running.line().await.as_deref(), Some("begun"));
    running.signal(Signal::SIGKILL);
    assert_eq!(running.line().await.as_deref(), Some("told"));
    let child = child.parse().unwrap();
    eventually("the command's child is gone", async || !is_alive(child)).await;
    let left = world.pttl(&name).await;
    assert!(left <= 1000, "{left}");
    let status = must("it is dead", running.child.wait()).await.unwrap();
    assert_eq!(status.signal(), Some(9));
    let next = program.says(&["lock", "run", &name, "--", "echo", "in"]).await;
    assert_eq!(next, "in\n");
}

/// T9 for this lock, as far as a lock goes: a holder that was stopped past its lease is told
/// when it wakes. What it wrote meanwhile only a fence could refuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_slept_past_its_lease_is_told_when_it_wakes() {
    let (world, program, name) = World::with_program().await;
    let (mut running, _) = Running::start(&program, &[&name, "--lease", "300ms"], UNTIL_TOLD).await;
    running.signal(Signal::SIGSTOP);
    let next = world.client().lock(&name).acquire();
    let next = must("the lease ends and the next one enters", next).await.unwrap();
    running.signal(Signal::SIGCONT);
    assert_eq!(running.line().await.as_deref(), Some("told"));
    let ran = running.ended().await;
    assert_eq!(ran.status, 70, "{ran:?}");
    assert!(!next.is_lost());
    next.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_knows_the_name_and_the_fencing_token() {
    let (_world, program, name) = World::with_program().await;
    let script = "echo $SECKILL_LOCK_NAME ${SECKILL_LOCK_FENCE-none}";
    let mut tokens = Vec::new();
    for fence in [&["--fence"][..], &["--fence"], &[]] {
        let said = [&["lock", "run", &name], fence, &["--", "sh", "-c", script]].concat();
        let said = program.says(&said).await;
        let (said_name, token) = said.trim().split_once(' ').unwrap();
        assert_eq!(said_name, name);
        tokens.push(token.parse::<u64>().ok());
    }
    assert!(tokens[0].is_some() && tokens[1] > tokens[0] && tokens[2].is_none(), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_says_who_holds_it() {
    let (world, program, name) = World::with_program().await;
    let free = program.says(&["lock", "inspect", &name]).await;
    assert_eq!(free, format!("{name}: free\n"));
    let locks = world.client();
    let owner = locks.owner();
    let lock = locks.lock(&name).owned_by(&owner);
    let (first, second) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    let held = program.says(&["lock", "inspect", &name]).await;
    assert!(held.contains("held 2 times by") && held.contains(owner.field()), "{held}");
    let json: Value =
        serde_json::from_str(&program.says(&["lock", "inspect", &name, "--json"]).await).unwrap();
    assert_eq!(json["owner"], owner.field());
    assert_eq!((&json["locked"], &json["holds"]), (&true.into(), &2.into()));
    assert!(json["remaining_ms"].as_u64().is_some_and(|left| left <= 600_000), "{json}");
    second.release().await.unwrap();
    first.release().await.unwrap();
}

/// A killed waiter has a place that nobody takes away: five seconds after it is told it is skipped.
/// One that is told to end takes its place along.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_fair_lock_come_in_turn_and_one_that_is_killed_or_interrupted_is_passed_over()
{
    let (world, program, name) = World::with_program().await;
    let held = world.client().lock(&name).fair().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..4_usize {
        let script = format!("echo {number}");
        let mut command =
            program.command(&["lock", "run", &name, "--fair", "--", "sh", "-c", &script]);
        waiting.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        world.until_queued(&name, number + 1).await;
    }
    let pid = |child: &Child| Pid::from_raw(child.id().unwrap().cast_signed());
    let queue = world.fair_queue(&name).await;
    kill(pid(&waiting[2]), Signal::SIGINT).unwrap();
    assert_eq!(world.until_queued(&name, 3).await, [&queue[0][..], &queue[1], &queue[3]]);
    waiting[0].kill().await.unwrap();
    held.release().await.unwrap();
    let mut ended = Vec::new();
    for child in waiting {
        let ran = Ran::from(must("it ends", child.wait_with_output()).await.unwrap());
        ended.push((ran.status, ran.stdout, ran.stderr));
    }
    let told = |status, out: &str| (status, out.to_owned(), String::new());
    assert_eq!(ended[1..], [told(0, "1\n"), told(130, ""), told(0, "3\n")]);
    assert!(world.is_gone(&name).await);
}

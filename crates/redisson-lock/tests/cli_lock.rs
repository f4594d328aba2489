//! `seckill lock`: the lock from a shell.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::world::{World, seckill};
use testkit::processes::is_alive;
use testkit::program::{Program, Ran, finished};
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
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let ran = program.run(&["lock", "run", &name, "--", "sh", "-c", script]).await;
        assert_eq!((ran.status, ran.stderr.as_str()), (status, ""), "{script}: {ran:?}");
        assert!(!world.exists(&name).await);
    }
    let ran = program.run(&["lock", "run", &name, "--", "/no/such/file"]).await;
    ran.refused(127, "/no/such/file");
    program.run(&["lock", "run", &name, "--", "/etc/passwd"]).await.refused(126, "/etc/passwd");
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_waits_for_the_other_or_says_that_it_is_held() {
    let (world, program, name) = World::with_program().await;
    let (holder, said) = Running::start(&program, &[&name], UNTIL_TOLD).await;
    assert_eq!(said, "begun");
    for wait in ["0s", "50ms"] {
        let ran = program.run(&["lock", "run", &name, "--wait", wait, "--", "echo", "in"]).await;
        ran.refused(75, "somebody else holds the lock");
    }
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

#[tokio::test]
async fn the_command_needs_no_dashes_before_it_and_keeps_its_own_options() {
    let (_world, program, name) = World::with_program().await;
    for dashes in [&[][..], &["--"]] {
        let run =
            [&["lock", "run", &name, "--wait", "1s"], dashes, &["echo", "--wait", "-n", "in"]];
        assert_eq!(program.says(&run.concat()).await, "--wait -n in\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_interrupted_ends_as_a_signal_ends_it() {
    let (world, program, name) = World::with_program().await;
    let guard = world.client().lock(&name).acquire().await.unwrap();
    let mut command = program.command(&["lock", "run", &name, "--", "echo", "in"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.until_listeners(&name, 1).await;
    kill(Pid::from_raw(child.id().unwrap().cast_signed()), Signal::SIGINT).unwrap();
    let ran = Ran::from(must("it ends", child.wait_with_output()).await.unwrap());
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (130, "", ""));
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await);
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
    assert!(json["remaining_ms"].as_u64().is_some_and(|left| left <= 60_000), "{json}");
    second.release().await.unwrap();
    first.release().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_a_lock_is_refused() {
    let (_world, program, _) = World::with_program().await;
    let huge = "n".repeat(513);
    let wrong: [(&[&str], i32, &str); 9] = [
        (&["run", "", "--", "true"], 2, "1 to 512 bytes"),
        (&["run", &huge, "--", "true"], 2, "1 to 512 bytes"),
        (&["run", "n", "--lease", "0s", "--", "true"], 2, "a lease lasts from"),
        (&["run", "n", "--lease", "100years", "--", "true"], 2, "a lease lasts from"),
        (&["run", "n", "--lease", "soon", "--", "true"], 2, "--lease"),
        (&["run", "n", "--wait=-1s", "--", "true"], 2, "--wait"),
        (&["run", "n"], 2, "COMMAND"),
        (&["run", "n", "--wiat", "1s", "true"], 2, "unexpected argument '--wiat'"),
        (&["inspect", ""], 2, "1 to 512 bytes"),
    ];
    for (arguments, status, words) in wrong {
        let ran = program.run(&[&["lock"], arguments].concat()).await;
        ran.refused(status, words);
    }
    Program::alone().run(&["lock", "run", "n", "--", "true"]).await.refused(2, "--redis-url");
    let nobody = seckill("redis://127.0.0.1:1");
    let run = ["lock", "run", "n", "--wait", "0s", "--", "true"];
    nobody.run(&run).await.refused(69, "connection refused by 127.0.0.1:1");
    nobody.run(&["lock", "inspect", "n"]).await.refused(1, "Redis is unavailable");
}

/// The limit of a wait is a limit of patience, not of a clock.
#[tokio::test]
async fn a_wait_of_ages_is_no_overflow() {
    let (_world, program, name) = World::with_program().await;
    let ages = Duration::MAX.as_secs().to_string() + "s";
    let said = program.says(&["lock", "run", &name, "--wait", &ages, "--", "echo", "in"]).await;
    assert_eq!(said, "in\n");
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
        ended.push((ran.status, ran.stdout));
    }
    let [_, second, third, last] = ended.try_into().unwrap();
    assert_eq!((second.0, second.1.as_str()), (0, "1\n"));
    assert_eq!((third.0, third.1.as_str()), (130, ""));
    assert_eq!((last.0, last.1.as_str()), (0, "3\n"));
    assert!(world.is_gone(&name).await);
}

//! Real programs, started, awaited and ended.
#![allow(clippy::unwrap_used)] // a test may panic

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use child_process::{ChildProcess, LoggedProcess, end_with_us, last_line, spawn};
use nix::sys::signal::Signal;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(script: &str) -> ChildProcess {
    ChildProcess::start(shell(script), Signal::SIGKILL).unwrap()
}

fn number(line: &str) -> Option<u32> {
    line.parse().ok()
}

/// A zombie is dead.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn until_gone(pid: u32) {
    let begun = Instant::now();
    while is_alive(pid) {
        assert!(begun.elapsed() < PATIENCE, "process {pid} is left");
        thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn the_line_that_says_ready_is_awaited_and_later_ones_are_read() {
    // More than a pipe holds, which the program could not write if nobody read.
    let mut child = start("echo starting; echo 42; yes | head -c 1000000; exit 3");
    assert_eq!(child.ready(PATIENCE, number).await.unwrap(), 42);
    assert_eq!(child.wait().await.unwrap().code(), Some(3));
}

#[tokio::test]
async fn a_program_that_does_not_get_ready_is_told_apart_from_one_that_ends() {
    let late = start("sleep 600").ready(Duration::from_millis(50), number).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    let ended = start("echo no number").ready(PATIENCE, number).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn the_output_has_an_end_in_time_and_in_length() {
    let output = start("echo out; echo why >&2; echo >&2; exit 4").output(PATIENCE, 100).await;
    let output = output.unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(4), &b"out\n"[..]));
    assert_eq!(last_line(&output.stderr).as_deref(), Some("why"));
    let slow = start("sleep 600").output(Duration::from_millis(50), 100).await.unwrap_err();
    assert_eq!(slow.to_string(), "took longer than 0.05 s");
    let long = start("yes").output(PATIENCE, 100).await.unwrap_err();
    assert_eq!(long.to_string(), "prints more than 100 bytes");
}

#[tokio::test]
async fn what_it_started_ends_with_it_when_it_is_dropped() {
    let mut child = start("sleep 600 & echo $!; wait");
    let grandchild = child.ready(PATIENCE, number).await.unwrap();
    assert!(is_alive(grandchild));
    drop(child);
    until_gone(grandchild);
}

#[tokio::test]
async fn a_stop_is_patient_and_then_it_is_not() {
    let mut obedient = start("trap 'exit 5' TERM; echo 1; while :; do sleep 0.01; done");
    obedient.ready(PATIENCE, number).await.unwrap();
    assert_eq!(obedient.stop(PATIENCE).await.unwrap().code(), Some(5));
    let mut stubborn = start("trap '' TERM; echo 1; while :; do sleep 0.01; done");
    stubborn.ready(PATIENCE, number).await.unwrap();
    let status = stubborn.stop(Duration::from_millis(50)).await.unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
}

#[tokio::test]
async fn a_program_that_is_to_end_in_order_has_ended_so_when_it_is_dropped() {
    let done = std::env::temp_dir().join(format!("child-process-{}", std::process::id()));
    let mut command = shell(
        "trap 'sleep 0.1; echo done >\"$DONE\"; exit' TERM; echo 1; while :; do sleep 0.01; done",
    );
    command.env("DONE", &done);
    let child = ChildProcess::start(command, Signal::SIGKILL).unwrap();
    let mut child = child.ending_in_order(PATIENCE);
    child.ready(PATIENCE, number).await.unwrap();
    drop(child);
    assert_eq!(fs::read_to_string(&done).unwrap(), "done\n");
    fs::remove_file(done).unwrap();
}

#[tokio::test]
async fn a_stopped_program_has_stopped_when_the_signal_returns() {
    let mut child = start("echo 1; while :; do :; done");
    child.ready(PATIENCE, number).await.unwrap();
    child.signal(Signal::SIGSTOP).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id().unwrap())).unwrap();
    assert!(stat.contains(") T "), "{stat}");
    assert_eq!(child.kill().await.unwrap().signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let mut command = Command::new("sleep");
    command.arg("600");
    end_with_us(&mut command, Signal::SIGKILL);
    let mut child = thread::spawn(move || spawn(&mut command).unwrap()).join().unwrap();
    assert!(is_alive(child.id()));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn a_log_tells_what_this_run_said() {
    let log = std::env::temp_dir().join(format!("child-process-log-{}", std::process::id()));
    let mut command = shell("echo \"$$ says\"; echo 1; exit 1");
    for _ in 0..2 {
        let mut running = LoggedProcess::start(&mut command, &log).unwrap();
        while running.ended().unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(running.last_lines(), format!("{} says\n1", running.id()));
        running.kill();
    }
    fs::remove_file(log).unwrap();
}

/// One that ends in order on SIGTERM, if no second one comes meanwhile, and one that would not end. Each has a
/// child of its own, which was there before the signal was a trap.
const PARENTS: [(&str, Signal); 2] = [
    (
        "sleep 600 & trap 'trap \"exit 9\" TERM; sleep 0.3; echo done >\"$DONE\"; exit' TERM
         echo $$ $!; while :; do sleep 0.01; done",
        Signal::SIGTERM,
    ),
    ("sleep 600 & trap '' TERM; echo $$ $!; wait", Signal::SIGKILL),
];

#[tokio::test]
#[ignore = "it is the process that another test kills"]
async fn be_killed() {
    let mut children = Vec::new();
    for (script, farewell) in PARENTS {
        let mut command = shell(script);
        // A shell says which of its commands were ended, and here nobody reads it any more.
        command.stderr(Stdio::null());
        let mut child = ChildProcess::start(command, farewell).unwrap();
        let pids = child.ready(PATIENCE, |line| Some(line.to_owned())).await.unwrap();
        println!("\nPIDS {pids}");
        children.push(child);
    }
    println!("\nREADY");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn one_that_is_killed_takes_the_children_of_its_children_along() {
    let done = std::env::temp_dir().join(format!("child-process-killed-{}", std::process::id()));
    let mut killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "be_killed", "--ignored", "--nocapture"])
        .env("DONE", &done)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(killed.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut pids: Vec<u32> = Vec::new();
    for line in lines.take_while(|line| line != "READY") {
        let told = line.strip_prefix("PIDS ").into_iter().flat_map(|pids| pids.split(' '));
        pids.extend(told.map(|pid| pid.parse::<u32>().unwrap()));
    }
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    pids.into_iter().for_each(until_gone);
    assert_eq!(fs::read_to_string(&done).unwrap(), "done\n");
    fs::remove_file(done).unwrap();
}

#[tokio::test]
async fn what_a_program_that_has_ended_left_running_goes_on() {
    let script = "sleep 600 >/dev/null 2>&1 & echo $!";
    let mut child = start(script);
    let left = child.ready(PATIENCE, number).await.unwrap();
    assert!(child.wait().await.unwrap().success());
    drop(child);
    assert!(is_alive(left));
    child_process::signal(left, Signal::SIGKILL).unwrap();
    until_gone(left);
}

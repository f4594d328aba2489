//! The load generator against small real servers on loopback: what is sent arrives once,
//! together, and what becomes of it is reported as it is.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use load::LoadError;
use load::crowd::{CrowdLine, CrowdPlan, CrowdReport};
use load::crowd_command;
use load::rush::{self, PlannedRequest, Progress, RushPlan, RushResult};
use load::target::{Target, TargetNode};
use load::template::Values;
use testkit::closed_port::ClosedPort;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpSocket;
use tokio::process::Command;
use tokio::sync::Barrier;

use super::load_servers::{Gate, answer_always, half_deaf, nodes};

/// Longer than any of these tests may take: reached only when one of them hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets nobody out again.
fn endless_gate() -> Arc<Gate> {
    Arc::new(Gate { all: Some(Barrier::new(usize::MAX >> 4)), ..Gate::default() })
}

/// `buyers` × `attempts` requests; the token of buyer *i* is `t<i × step>`.
fn plan(nodes: Vec<SocketAddr>, buyers: usize, attempts: usize, step: usize) -> RushPlan {
    let request = |i: usize, k: usize| PlannedRequest {
        node: (i + k) % nodes.len(),
        path: format!("/buy/{i}/{k}").as_str().into(),
        token: format!("t{}", i * step).into(),
        user: format!("{i}").into(),
        buyer: i as u64,
        order: None,
    };
    let requests = (0..buyers).flat_map(|i| (0..attempts).map(move |k| (i, k)));
    RushPlan {
        target: Target::own_api(),
        requests: requests.map(|(i, k)| request(i, k)).collect(),
        nodes: nodes.into_iter().map(TargetNode::from).collect(),
        max_connections: buyers * attempts,
        answer_timeout: PATIENCE,
        total_timeout: PATIENCE * 2,
        begin_within: None,
        arrivals: Vec::new(),
        seed: 1,
        may_lack_connections: false,
        keeps_bodies: false,
    }
}

async fn send(plan: RushPlan) -> RushResult {
    rush::run(plan, Arc::default()).await.unwrap()
}

fn count(result: &RushResult, outcome: &str) -> usize {
    result.answers.iter().filter(|answer| answer.outcome == outcome).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_arrives_once_and_is_counted_by_its_code() {
    let gate = Arc::new(Gate::default());
    let mut plan = plan(nodes(3, &gate).await, 100, 5, 1);
    plan.max_connections = 40;
    let progress = Arc::new(Progress::default());
    let result = rush::run(plan.clone(), Arc::clone(&progress)).await.unwrap();

    let arrived = gate.arrivals().into_iter().map(|a| (a.token, a.path, a.node));
    let mut arrived: Vec<_> = arrived.collect();
    arrived.sort();
    let path = |s: &PlannedRequest| s.path.render(&Values { user: "", token: "", taken: &[] });
    let mut request: Vec<_> =
        plan.requests.iter().map(|s| (s.token.to_string(), path(s), s.node)).collect();
    request.sort();
    assert_eq!(arrived, request);

    assert_eq!((result.connections, progress.done()), (40, 500));
    for code in ["ordered", "sold_out", "http_502", "http_200", "http_409"] {
        assert_eq!(count(&result, code), 100, "{code}");
    }
    for (index, answer) in result.answers.iter().enumerate() {
        let request = &plan.requests[index];
        assert_eq!((answer.request, answer.buyer), (index, request.buyer));
        let ordered = answer.outcome == "ordered";
        assert_eq!(answer.order_id, ordered.then(|| request.token.to_string()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept_and_the_attempts_of_a_buyer_never_share_one() {
    let gate = Arc::new(Gate::default());
    let mut plan = plan(nodes(2, &gate).await, 60, 5, 5);
    plan.max_connections = 17;
    let result = send(plan).await;
    assert_eq!(count(&result, "ordered"), 300);
    let arrivals = gate.arrivals();
    // Two connections to different nodes may have one local port.
    let peers: HashSet<_> = arrivals.iter().map(|arrival| (arrival.node, arrival.peer)).collect();
    assert_eq!(peers.len(), 17);
    let of_tokens: HashSet<_> = arrivals.iter().map(|a| (&a.token, a.node, a.peer)).collect();
    assert_eq!(of_tokens.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_connections_fire_at_once_and_so_do_all_attempts_of_a_buyer_on_few_of_them() {
    let each = (0..100).map(|i| (format!("t{}", i * 5), Barrier::new(5))).collect();
    for (gate, buyers, max_connections) in [
        (Gate { all: Some(Barrier::new(300)), ..Gate::default() }, 60, 300),
        (Gate { each, ..Gate::default() }, 100, 7),
    ] {
        let plan = plan(nodes(2, &Arc::new(gate)).await, buyers, 5, 5);
        let result = send(RushPlan { max_connections, ..plan }).await;
        assert_eq!(count(&result, "ordered"), buyers * 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_leaves_one_unknown_outcome_and_nothing_is_sent_again() {
    // To a node that is gone with its first connection the rest is known not to have been sent.
    for (accepted, requests, max_connections, counts) in
        [(usize::MAX, 20, 2, [10, 10, 0]), (1, 4, 1, [1, 1, 2])]
    {
        let (node, mut seen) = half_deaf(accepted).await;
        let plan = plan(vec![node], requests, 1, 1);
        let result = send(RushPlan { max_connections, ..plan }).await;
        let outcomes = ["ordered", "no_answer", "not_sent"];
        assert_eq!(outcomes.map(|code| count(&result, code)), counts);
        let mut heads = HashSet::new();
        for _ in 0..counts[0] + counts[1] {
            let head = seen.recv().await.unwrap();
            assert!(heads.insert(head.clone()), "{head} was sent twice");
        }
        assert!(seen.try_recv().is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up_request_by_request_and_in_the_end_altogether() {
    // The time of one answer, and of all of them; how many got none, and how many were not sent.
    for (answer_ms, total, counts) in
        [(200, PATIENCE * 2, [6, 0]), (60_000, Duration::from_secs(1), [2, 4])]
    {
        let gate = endless_gate();
        let answer_timeout = Duration::from_millis(answer_ms);
        let plan = plan(nodes(1, &gate).await, 6, 1, 1);
        let result =
            send(RushPlan { max_connections: 2, answer_timeout, total_timeout: total, ..plan })
                .await;
        assert_eq!(["no_answer", "not_sent"].map(|code| count(&result, code)), counts);
        assert!(result.answers.iter().all(|answer| !answer.is_answered()));
        assert!(gate.arrivals().len() <= counts[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_cannot_be_sent_is_refused_before_anything_is_sent() {
    let gate = Arc::new(Gate::default());
    let mut addresses = nodes(1, &gate).await;
    let mut bad_token = plan(addresses.clone(), 2, 1, 1);
    bad_token.requests[1].token = "line\nbreak".into();
    let error = rush::run(bad_token, Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::MalformedRequest { request: 1, .. }), "{error}");

    let closed = ClosedPort::take();
    addresses.push(([127, 0, 0, 1], closed.number).into());
    let error = rush::run(plan(addresses, 20, 2, 1), Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }) && error.retry_may_help(), "{error}");
    assert!(gate.arrivals().is_empty());

    let error = rush::run(plan(vec![], 0, 1, 1), Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::NothingToSend { requests: 0, nodes: 0 }), "{error}");
    let error = crowd_command::run_on(&b"{\"nodes\":[]}"[..], Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("not a crowd's plan"), "{error}");
}

/// Whether somebody's attempt to connect to `port` is being left unanswered.
#[cfg(target_os = "linux")]
fn is_somebody_kept_out_of(port: u16) -> bool {
    let syn_sent = format!(":{port:04X} 02");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| line.contains(&syn_sent))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_listen_backlog_is_waited_out_and_nobody_fires_until_all_are_connected() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let node = listener.local_addr().unwrap();
    let sending = tokio::spawn(send(plan(vec![node], 8, 1, 1)));
    // The kernel has no event for this one.
    while !is_somebody_kept_out_of(node.port()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (first, _) = listener.accept().await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), first.peek(&mut [0])).await;
    // On a machine that stalls, the others may be in by now, and the request is in order.
    let is_too_early = early.is_ok() && is_somebody_kept_out_of(node.port());
    assert!(!is_too_early, "a request was fired before all were connected");
    tokio::spawn(answer_always(first));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_always(stream));
        }
    });
    let result = sending.await.unwrap();
    assert_eq!((result.connections, count(&result, "ordered")), (8, 8));
}

fn crowd_plan(nodes: &[SocketAddr], buyers: usize) -> CrowdPlan {
    let buyers: Vec<_> = (0..buyers)
        .map(|i| serde_json::json!({"user_id": format!("1{i}"), "token": format!("t{i}")}))
        .collect();
    let plan = serde_json::json!({
        "nodes": nodes, "path": "/buy", "buyers": buyers, "attempts": 3,
        "max_connections": 24, "seed": 9, "answer_timeout_ms": 3_600_000,
        "total_timeout_ms": 3_600_000,
    });
    serde_json::from_value(plan).unwrap()
}

/// What a crowd wrote, and its report.
async fn crowd_lines(plan: &CrowdPlan) -> (Vec<CrowdLine>, CrowdReport) {
    let (plan, mut output) = (serde_json::to_vec(plan).unwrap(), Vec::new());
    crowd_command::run_on(plan.as_slice(), &mut output).await.unwrap();
    let output = String::from_utf8(output).unwrap();
    let lines = output.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<CrowdLine> = lines.collect();
    match lines.pop() {
        Some(CrowdLine::Report(report)) => (lines, report),
        other => panic!("the last line is no report: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_reads_a_plan_and_writes_its_progress_or_each_buyers_and_one_report() {
    let nodes = nodes(2, &Arc::default()).await;
    for tells_buyers in [false, true] {
        let plan = CrowdPlan { tells_buyers, ..crowd_plan(&nodes, 50) };
        let (lines, report) = crowd_lines(&plan).await;
        let told = report.told();
        let sent: u64 = told.outcomes.values().sum();
        assert_eq!((sent, report.connections, told.acknowledged.len()), (150, 24, 30));
        let mut acknowledged = HashSet::new();
        for order in &told.acknowledged {
            let number: u32 = order.user_id.strip_prefix('1').unwrap().parse().unwrap();
            assert_eq!(order.order_id, Some(format!("t{number}")));
            acknowledged.insert(number);
        }
        assert_eq!((told.served, told.count_refused(|_| true)), (10, 40));
        assert!(report.latency_ms.is_some());

        let (mut refused, mut bought, mut last) = (HashSet::new(), HashSet::new(), (0, 0));
        for line in lines {
            let told = match line {
                CrowdLine::Told(told) if tells_buyers => told,
                CrowdLine::Progress { .. } if !tells_buyers => continue,
                line => panic!("{line:?}"),
            };
            assert!((told.done, told.ordered) >= last, "{told:?}");
            last = (told.done, told.ordered);
            refused.extend(told.changes.refused.iter().copied());
            let again = told.changes.bought.iter().chain(&told.changes.bought_again);
            bought.extend(again.copied());
        }
        // The last line before the report has all of it.
        if tells_buyers {
            assert_eq!(last, (sent, told.count("ordered")));
            assert_eq!(bought, acknowledged);
            assert!(!bought.is_empty() && !refused.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_begun_in_time_is_no_part_of_a_rush() {
    let nodes = nodes(1, &Arc::default()).await;
    for (limit, sent) in [(Some(Duration::ZERO), 0), (Some(Duration::MAX), 12), (None, 12)] {
        let plan = RushPlan { begin_within: limit, ..plan(nodes.clone(), 4, 3, 1) };
        let result = send(RushPlan { max_connections: 3, ..plan }).await;
        assert_eq!((result.answers.len(), result.connections), (sent, 3), "{limit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_buyer_comes_at_a_time_of_its_own() {
    let nodes = nodes(1, &Arc::default()).await;
    for (within, connections) in [(Duration::from_millis(300), 3), (Duration::ZERO, 2)] {
        let due = |index: usize| within.mul_f64((index * 5 % 12 + 1) as f64 / 12.0);
        let plan =
            RushPlan { arrivals: (0..12).map(due).collect(), ..plan(nodes.clone(), 6, 2, 1) };
        let result = send(RushPlan { max_connections: connections, ..plan }).await;
        assert_eq!(result.answers.len(), 12);
        for (index, answer) in result.answers.iter().enumerate() {
            let due = due(index);
            // None is sent early, and a latency counts from when the attempt was due.
            assert!(answer.at >= due && answer.at - answer.latency >= due, "{index}: {answer:?}");
        }
        assert!(result.elapsed >= within);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_whose_reader_is_gone_ends_by_itself() {
    let gate = endless_gate();
    let plan = crowd_plan(&nodes(1, &gate).await, 8);
    let mut child = Command::new(env!("CARGO_BIN_EXE_seckill-tools"))
        .arg("crowd")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(&plan).unwrap()).await.unwrap();
    drop(stdin);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(stdout.read_line(&mut String::new()).await.unwrap() > 0);
    drop(stdout);
    let status = tokio::time::timeout(PATIENCE, child.wait()).await;
    assert!(!status.expect("the crowd outlived its reader").unwrap().success());
}

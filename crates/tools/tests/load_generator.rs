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
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::Command;
use tokio::sync::Barrier;

use super::load_servers::{Gate, ORDERED, answer_always, half_deaf, head, nodes};

/// Longer than any of these tests may take: reached only when one of them hangs.
const PATIENCE: Duration = Duration::from_secs(60);

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

    let mut arrived: Vec<_> = gate.arrivals();
    arrived.sort_by(|a, b| (&a.token, &a.path).cmp(&(&b.token, &b.path)));
    let arrived: Vec<_> = arrived.into_iter().map(|a| (a.token, a.path, a.node)).collect();
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
async fn all_connections_fire_at_once() {
    let gate = Arc::new(Gate { all: Some(Barrier::new(300)), ..Gate::default() });
    let result = send(plan(nodes(2, &gate).await, 60, 5, 5)).await;
    assert_eq!(count(&result, "ordered"), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_attempts_of_a_buyer_are_under_way_together_on_few_connections() {
    let each = (0..100).map(|i| (format!("t{}", i * 5), Barrier::new(5))).collect();
    let gate = Arc::new(Gate { each, ..Gate::default() });
    let mut plan = plan(nodes(2, &gate).await, 100, 5, 5);
    plan.max_connections = 7;
    assert_eq!(count(&send(plan).await, "ordered"), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_leaves_one_unknown_outcome_and_nothing_is_sent_again() {
    let (node, mut seen) = half_deaf().await;
    let mut plan = plan(vec![node], 20, 1, 1);
    plan.max_connections = 2;
    let result = send(plan).await;
    assert_eq!((count(&result, "ordered"), count(&result, "no_answer")), (10, 10));
    let mut lines = HashSet::new();
    for _ in 0..20 {
        let line = seen.recv().await.unwrap();
        assert!(lines.insert(line.clone()), "{line} was sent twice");
    }
    assert!(seen.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_node_that_has_died_are_known_not_to_have_been_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        drop(listener);
        head(&mut stream).await.unwrap();
        stream.write_all(ORDERED.as_bytes()).await.unwrap();
        head(&mut stream).await.unwrap();
    });
    let mut plan = plan(vec![node], 4, 1, 1);
    plan.max_connections = 1;
    let result = send(plan).await;
    server.await.unwrap();
    let counts = ["ordered", "no_answer", "not_sent"].map(|code| count(&result, code));
    assert_eq!(counts, [1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up_request_by_request() {
    let gate = Arc::new(Gate { all: Some(Barrier::new(usize::MAX >> 4)), ..Gate::default() });
    let mut plan = plan(nodes(1, &gate).await, 6, 1, 1);
    plan.max_connections = 2;
    plan.answer_timeout = Duration::from_millis(200);
    let result = send(plan).await;
    assert_eq!(count(&result, "no_answer"), 6);
    assert!(result.answers.iter().all(|answer| !answer.is_answered()));
    assert!(gate.arrivals().len() <= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_total_time_is_up_the_rest_is_not_sent() {
    let gate = Arc::new(Gate { all: Some(Barrier::new(usize::MAX >> 4)), ..Gate::default() });
    let mut plan = plan(nodes(1, &gate).await, 6, 1, 1);
    plan.max_connections = 2;
    plan.total_timeout = Duration::from_secs(1);
    let result = send(plan).await;
    assert_eq!((count(&result, "no_answer"), count(&result, "not_sent")), (2, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_there_is_an_error_before_anything_is_sent() {
    let gate = Arc::new(Gate::default());
    let mut addresses = nodes(1, &gate).await;
    let closed = ClosedPort::take();
    addresses.push(([127, 0, 0, 1], closed.number).into());
    let error = rush::run(plan(addresses, 20, 2, 1), Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }) && error.retry_may_help(), "{error}");
    assert!(gate.arrivals().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_cannot_be_sent_is_refused() {
    let node: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let mut bad_token = plan(vec![node], 2, 1, 1);
    bad_token.requests[1].token = "line\nbreak".into();
    let error = rush::run(bad_token, Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::MalformedRequest { request: 1, .. }), "{error}");

    let error = rush::run(plan(vec![], 0, 1, 1), Arc::default()).await.unwrap_err();
    assert!(matches!(error, LoadError::NothingToSend { requests: 0, nodes: 0 }), "{error}");
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

fn crowd_plan(nodes: &[SocketAddr], buyers: usize) -> Vec<u8> {
    let buyers: Vec<_> = (0..buyers)
        .map(|i| serde_json::json!({"user_id": format!("1{i}"), "token": format!("t{i}")}))
        .collect();
    let plan = serde_json::json!({
        "nodes": nodes, "path": "/buy", "buyers": buyers, "attempts": 3,
        "max_connections": 24, "seed": 9, "answer_timeout_ms": 3_600_000,
        "total_timeout_ms": 3_600_000,
    });
    serde_json::from_value::<CrowdPlan>(plan.clone()).unwrap();
    plan.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_reads_a_plan_and_writes_progress_and_one_report() {
    let gate = Arc::new(Gate::default());
    let plan = crowd_plan(&nodes(2, &gate).await, 50);
    let mut output = Vec::new();
    crowd_command::run_on(plan.as_slice(), &mut output).await.unwrap();

    let lines: Vec<CrowdLine> = output
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let (CrowdLine::Report(report), progress) = lines.split_last().unwrap() else {
        panic!("the last line is no report");
    };
    let is_progress = |line: &CrowdLine| matches!(line, CrowdLine::Progress { .. });
    assert!(progress.iter().all(is_progress));
    let CrowdReport { connections, latency_ms, .. } = report;
    let told = report.told();
    let sent: u64 = told.outcomes.values().sum();
    assert_eq!((sent, *connections, told.acknowledged.len()), (150, 24, 30));
    for order in &told.acknowledged {
        let number = order.user_id.strip_prefix('1').unwrap();
        assert_eq!(order.order_id, Some(format!("t{number}")));
    }
    assert_eq!(told.outcomes["sold_out"], 30);
    assert_eq!(told.count_refused(|codes| codes.contains("sold_out")), 10);
    assert_eq!((told.served, told.count_refused(|_| true)), (10, 40));
    assert!(latency_ms.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_begun_in_time_is_no_part_of_a_rush() {
    let gate = Arc::new(Gate::default());
    let nodes = nodes(1, &gate).await;
    for (limit, sent) in [(Some(Duration::ZERO), 0), (Some(Duration::MAX), 12), (None, 12)] {
        let plan = RushPlan { begin_within: limit, ..plan(nodes.clone(), 4, 3, 1) };
        let result = send(RushPlan { max_connections: 3, ..plan }).await;
        assert_eq!((result.answers.len(), result.connections), (sent, 3), "{limit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_buyer_comes_at_a_time_of_its_own() {
    let nodes = nodes(1, &Arc::new(Gate::default())).await;
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
async fn a_crowd_tells_of_each_buyer_when_it_is_asked_to() {
    let gate = Arc::new(Gate::default());
    let mut plan: CrowdPlan =
        serde_json::from_slice(&crowd_plan(&nodes(1, &gate).await, 50)).unwrap();
    plan.tells_buyers = true;
    let mut output = Vec::new();
    let json = serde_json::to_vec(&plan).unwrap();
    crowd_command::run_on(json.as_slice(), &mut output).await.unwrap();
    let lines: Vec<CrowdLine> = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let (CrowdLine::Report(report), told) = lines.split_last().unwrap() else {
        panic!("the last line is no report");
    };
    let (mut refused, mut bought, mut last) = (HashSet::new(), HashSet::new(), (0, 0));
    for line in told {
        let CrowdLine::Told(told) = line else { panic!("{line:?}") };
        assert!((told.done, told.ordered) >= last, "{told:?}");
        last = (told.done, told.ordered);
        refused.extend(told.changes.refused.iter().copied());
        let again = told.changes.bought.iter().chain(&told.changes.bought_again);
        bought.extend(again.copied());
    }
    // The last line before the report has all of it.
    let all = report.told();
    assert_eq!(last, (all.outcomes.values().sum(), all.count("ordered")));
    let acknowledged: HashSet<u32> = all
        .acknowledged
        .iter()
        .map(|order| plan.buyers.iter().position(|it| it.user_id == order.user_id).unwrap() as u32)
        .collect();
    assert_eq!(bought, acknowledged);
    assert!(!bought.is_empty() && !refused.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_none_is_said_to_be_none() {
    let error = crowd_command::run_on(&b"{\"nodes\":[]}"[..], Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("not a crowd's plan"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_whose_reader_is_gone_ends_by_itself() {
    let gate = Arc::new(Gate { all: Some(Barrier::new(usize::MAX >> 4)), ..Gate::default() });
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
    stdin.write_all(&plan).await.unwrap();
    drop(stdin);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(stdout.read_line(&mut String::new()).await.unwrap() > 0);
    drop(stdout);
    let status = tokio::time::timeout(PATIENCE, child.wait()).await;
    assert!(!status.expect("the crowd outlived its reader").unwrap().success());
}

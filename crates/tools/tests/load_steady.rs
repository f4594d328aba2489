//! The steady load against small real servers on loopback: what is due is sent once, at its
//! time, and counted from then on whatever becomes of it.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seckill::cli::steady as process;
use load::steady::{self, Arrival, Pairing, Phase, Progress, SteadyPlan, SteadyReport};
use load::{LoadError, crowd_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::{Semaphore, mpsc};

use testkit::wait::{eventually, must};
use super::load_servers::{Gate, ORDERED, half_deaf, head, nodes};

/// Longer than any of these tests takes: they end when the plan has no more pairs.
const UNTIL_EXHAUSTED: Arrival = Arrival::Closed { lead_in_ms: 0, duration_ms: 60_000 };

fn open(phases: &[(f64, u64)]) -> Arrival {
    let phase = |&(per_s, duration_ms)| Phase { per_s, duration_ms };
    Arrival::Open { phases: phases.iter().map(phase).collect() }
}

/// `paths` × `tokens` pairs; the tokens are `t<0>`, `t<step>`, …
fn plan(nodes: Vec<SocketAddr>, (paths, tokens, step): (usize, usize, usize)) -> SteadyPlan {
    SteadyPlan {
        nodes,
        paths: (0..paths).map(|i| format!("/buy/{i}").into()).collect(),
        tokens: (0..tokens).map(|i| format!("t{}", i * step).into()).collect(),
        pairing: Pairing::PathAfterPath,
        arrival: UNTIL_EXHAUSTED,
        connections: 1,
        answer_timeout_ms: 60_000,
        connection_timeout_ms: None,
        seed: 1,
    }
}

async fn run(plan: SteadyPlan) -> SteadyReport {
    steady::run(plan, Arc::default()).await.unwrap()
}

fn sum(by_outcome: &BTreeMap<String, u64>) -> u64 {
    by_outcome.values().sum()
}

/// All phases' outcomes, which add up wherever they are counted.
fn outcomes(report: &SteadyReport) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for phase in &report.phases {
        assert_eq!(sum(&phase.outcomes), phase.due, "{phase:?}");
        for (outcome, count) in &phase.outcomes {
            *all.entry(outcome.clone()).or_default() += count;
            assert!(phase.latency_ms.contains_key(outcome), "{outcome}");
            assert_eq!(phase.service_ms.contains_key(outcome), outcome != "not_sent");
        }
    }
    let due: u64 = report.phases.iter().map(|phase| phase.due).sum();
    assert_eq!(report.windows.iter().map(|window| window.due).sum::<u64>(), due);
    assert_eq!(report.windows.iter().map(|window| sum(&window.outcomes)).sum::<u64>(), due);
    let answers: u64 = report.phases.iter().map(|phase| sum(&phase.answers)).sum();
    assert!(answers <= due, "{answers} answers to {due} requests");
    for window in &report.windows {
        assert_eq!(window.ordered_p99_ms.is_some(), window.outcomes.contains_key("ordered"));
    }
    all
}

fn counts<const N: usize>(of: [(&str, u64); N]) -> BTreeMap<String, u64> {
    of.into_iter().map(|(outcome, count)| (outcome.to_owned(), count)).collect()
}

/// What the gate has seen, in its order.
fn arrived(gate: &Gate) -> Vec<(String, String)> {
    let arrivals = gate.arrivals.lock().unwrap();
    arrivals.iter().map(|arrival| (arrival.path.clone(), arrival.token.clone())).collect()
}

/// A server that treats each of its connections as `treat` does.
async fn server<F>(treat: impl Fn(BufReader<TcpStream>) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = Option<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(treat(BufReader::new(stream)));
        }
    });
    address
}

/// A server that sells to everybody, but only while `gate` is open. Each request is told to
/// `inside`.
async fn gated(gate: &Arc<Semaphore>, inside: &Arc<Semaphore>) -> SocketAddr {
    let (gate, inside) = (Arc::clone(gate), Arc::clone(inside));
    server(move |mut stream| {
        let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
        async move {
            while head(&mut stream).await.is_some() {
                inside.add_permits(1);
                drop(gate.acquire().await.ok()?);
                stream.write_all(ORDERED.as_bytes()).await.ok()?;
            }
            Some(())
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_is_sent_once_and_counted_by_its_code() {
    for (arrival, threads) in
        [(UNTIL_EXHAUSTED, 1), (UNTIL_EXHAUSTED, 3), (open(&[(5_000.0, 60_000)]), 2)]
    {
        let gate = Arc::new(Gate::default());
        let mut plan = plan(nodes(3, &gate).await, (3, 100, 1));
        (plan.arrival, plan.connections) = (arrival, 7);
        let report = steady::run_on(threads, plan, Arc::default()).await.unwrap();
        let all = ["http_200", "http_409", "http_502", "ordered", "sold_out"];
        assert_eq!(outcomes(&report), counts(all.map(|code| (code, 60))));
        assert!(report.exhausted);
        assert_eq!((report.connections, report.phases[0].due), (7, 300));
        let pairs: HashSet<_> = arrived(&gate).into_iter().collect();
        assert_eq!((pairs.len(), arrived(&gate).len()), (300, 300));
        let nodes: HashSet<_> = gate.arrivals.lock().unwrap().iter().map(|a| a.node).collect();
        assert_eq!(nodes.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_come_in_the_order_of_their_pairing() {
    for (pairing, expected) in [
        (Pairing::PathAfterPath, "0t0 0t5 0t10 1t0 1t5 1t10"),
        (Pairing::PathsInTurn, "0t0 1t0 0t5 1t5 0t10 1t10"),
        (Pairing::Again, "0t0 1t5 0t10 1t0 0t5 1t10"),
    ] {
        let gate = Arc::new(Gate::default());
        let mut plan = plan(nodes(1, &gate).await, (2, 3, 5));
        plan.pairing = pairing;
        if pairing == Pairing::Again {
            plan.arrival = Arrival::Closed { lead_in_ms: 0, duration_ms: 300 };
        }
        let report = run(plan).await;
        let arrived: Vec<_> =
            arrived(&gate).iter().map(|(path, token)| path.replace("/buy/", "") + token).collect();
        assert_eq!(outcomes(&report)["ordered"], arrived.len() as u64);
        let expected: Vec<_> = expected.split(' ').collect();
        if pairing == Pairing::Again {
            assert!(!report.exhausted && report.elapsed_ms >= 300.0);
            assert!(arrived.iter().zip(expected.into_iter().cycle()).all(|(a, b)| a == b));
        } else {
            assert!(report.exhausted);
            assert_eq!(arrived, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_in_is_counted_apart() {
    let (gate, inside) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut plan = plan(vec![gated(&gate, &inside).await], (1, 1, 1));
    plan.pairing = Pairing::Again;
    plan.arrival = Arrival::Closed { lead_in_ms: 100, duration_ms: 1_000 };
    let progress = Arc::new(Progress::default());
    let load = tokio::spawn(steady::run(plan, Arc::clone(&progress)));
    eventually("the lead-in is over", async || progress.done() >= 100).await;
    gate.add_permits(1);
    let report = load.await.unwrap().unwrap();

    let all = outcomes(&report);
    let [lead_in, measured] = &*report.phases else { panic!("{report:?}") };
    assert_eq!((lead_in.duration_ms, measured.duration_ms), (100.0, 1_000.0));
    // Due at the start, and answered when the lead-in was over.
    assert_eq!((lead_in.due, sum(&lead_in.answers)), (1, 0));
    assert!(measured.due > 0 && sum(&measured.answers) > 0, "{measured:?}");
    assert_eq!(all, counts([("ordered", 1 + measured.due)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_counts_for_all_who_were_due_in_it_and_not_only_for_those_sent() {
    let (gate, inside) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut plan = plan(vec![gated(&gate, &inside).await], (1, 1, 1));
    plan.pairing = Pairing::Again;
    plan.arrival = open(&[(1_000.0, 500)]);
    plan.connections = 2;
    let progress = Arc::new(Progress::default());
    let load = tokio::spawn(steady::run(plan, Arc::clone(&progress)));
    drop(must("both connections have sent", inside.acquire_many(2)).await.unwrap());
    // The two that are sent wait, and some 300 become due that cannot be.
    let stalled_until = progress.done() + 300;
    eventually("300 ms more have passed", async || progress.done() >= stalled_until).await;
    gate.add_permits(2);
    let report = load.await.unwrap().unwrap();

    assert_eq!(outcomes(&report), counts([("ordered", report.phases[0].due)]));
    let (latency, service) =
        (report.phases[0].latency_ms["ordered"], report.phases[0].service_ms["ordered"]);
    // Two had the stall while they were under way, which is all that the sending knows of it;
    // most of the others had it before they left.
    assert!(service.max > service.p95, "from sending {service:?}");
    assert!(latency.p50 > service.p95, "from due {latency:?}, from sending {service:?}");
    assert!(latency.max >= service.max);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_of_a_phase_are_drawn_from_its_rate_and_the_seed_whatever_the_server_does() {
    let due = async |seed, answer_timeout_ms| {
        let node = server(async |mut stream: BufReader<TcpStream>| {
            let mut asked = 0;
            // Each connection answers ten times, and then no more.
            while head(&mut stream).await.is_some() {
                asked += 1;
                if asked <= 10 {
                    stream.write_all(ORDERED.as_bytes()).await.ok()?;
                }
            }
            Some(())
        });
        let mut plan = plan(vec![node.await], (1, 1, 1));
        plan.pairing = Pairing::Again;
        plan.arrival = open(&[(200.0, 250), (2_000.0, 250), (20.0, 250)]);
        (plan.connections, plan.seed, plan.answer_timeout_ms) = (3, seed, answer_timeout_ms);
        let report = run(plan).await;
        outcomes(&report);
        assert!(report.elapsed_ms >= 750.0 && !report.exhausted);
        assert!(report.phases.iter().all(|phase| phase.duration_ms == 250.0));
        report.phases.iter().map(|phase| phase.due).collect::<Vec<_>>()
    };
    let first = due(5, 50).await;
    assert_eq!(due(5, 100).await, first);
    assert_ne!(due(6, 50).await, first);
    assert!(first[1] > first[0] && first[0] > first[2], "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_load_has_one_request_under_way_on_each_connection() {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let all_in = Arc::new(tokio::sync::Barrier::new(8));
    let seen = Arc::clone(&most);
    let node = server(move |mut stream| {
        let (inside, most, all_in) = (Arc::clone(&inside), Arc::clone(&seen), Arc::clone(&all_in));
        async move {
            while head(&mut stream).await.is_some() {
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1 + stream.buffer().len();
                most.fetch_max(now, Ordering::SeqCst);
                // Fewer than all would wait here for ever.
                all_in.wait().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                stream.write_all(ORDERED.as_bytes()).await.ok()?;
            }
            Some(())
        }
    });
    let mut plan = plan(vec![node.await], (10, 16, 1));
    plan.connections = 8;
    assert_eq!(outcomes(&run(plan).await), counts([("ordered", 160)]));
    assert_eq!(most.load(Ordering::SeqCst), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_free_connection_may_be_shorter_than_one_for_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut plan = plan(vec![listener.local_addr().unwrap()], (1, 100, 1));
    (plan.arrival, plan.answer_timeout_ms) = (open(&[(1_000.0, 60_000)]), 2_000);
    plan.connection_timeout_ms = Some(5);
    let server = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        head(&mut stream).await.unwrap();
        // Until the generator gives up.
        head(&mut stream).await
    });
    let report = run(plan).await;
    server.await.unwrap();
    assert_eq!(outcomes(&report), counts([("no_answer", 1), ("not_sent", 99)]));
    let latency = &report.phases[0].latency_ms;
    assert!(latency["not_sent"].p50 < latency["no_answer"].p50);
    assert!(latency["not_sent"].p50 >= 4.99);
}

/// For a second after its refusal a client is not there for any arrival; in a closed load it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_refused_comes_again_when_it_was_told_to() {
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 22\r\n\
        content-type: application/problem+json\r\n\r\n{\"code\":\"unavailable\"}";
    let refusing = || {
        server(move |mut stream| async move {
            while head(&mut stream).await.is_some() {
                stream.write_all(refusal.as_bytes()).await.ok()?;
            }
            Some(())
        })
    };
    let mut plan = plan(vec![refusing().await], (10, 100, 1));
    (plan.arrival, plan.connections, plan.connection_timeout_ms) =
        (open(&[(200.0, 900)]), 2, Some(5));
    let report = run(plan.clone()).await;
    let told = outcomes(&report);
    assert_eq!((told["unavailable"], report.phases[0].due), (2, told["not_sent"] + 2));
    (plan.arrival, plan.connection_timeout_ms) = (UNTIL_EXHAUSTED, None);
    assert_eq!(outcomes(&run(plan).await), counts([("unavailable", 1_000)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_finds_a_free_connection_is_sent_however_short_its_wait_would_be() {
    let gate = Arc::new(Gate::default());
    let mut plan = plan(nodes(1, &gate).await, (4, 40, 5));
    (plan.connections, plan.connection_timeout_ms) = (8, Some(1));
    assert_eq!(outcomes(&run(plan).await), counts([("ordered", 160)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_find_no_server_are_known_not_to_have_been_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut plan = plan(vec![listener.local_addr().unwrap()], (1, 100, 1));
    (plan.arrival, plan.answer_timeout_ms) = (open(&[(1_000.0, 60_000)]), 300);
    let server = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        drop(listener);
        head(&mut stream).await.unwrap();
    });
    let report = run(plan).await;
    server.await.unwrap();
    assert_eq!(outcomes(&report), counts([("no_answer", 1), ("not_sent", 99)]));
    assert_eq!(report.phases[0].answers, counts([]));
    // They are counted with what they have waited: all of the time-out, to the histogram's 0.1 %.
    assert!(report.phases[0].latency_ms["not_sent"].p50 >= 299.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up() {
    let gate =
        Arc::new(Gate { all: Some(tokio::sync::Barrier::new(usize::MAX >> 4)), ..Gate::default() });
    let mut plan = plan(nodes(1, &gate).await, (1, 6, 1));
    (plan.connections, plan.answer_timeout_ms) = (2, 200);
    assert_eq!(outcomes(&run(plan).await), counts([("no_answer", 6)]));
    assert_eq!(arrived(&gate).into_iter().collect::<HashSet<_>>().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_leaves_one_unknown_outcome_and_is_opened_again() {
    let (node, mut seen) = half_deaf().await;
    // On one connection at a time, because which of two sends the odd ones is nobody's choice.
    let report = run(plan(vec![node], (20, 1, 1))).await;
    assert_eq!(outcomes(&report), counts([("no_answer", 10), ("ordered", 10)]));
    let mut lines = HashSet::new();
    for _ in 0..20 {
        let line = seen.recv().await.unwrap();
        assert!(lines.insert(line.clone()), "{line} was sent twice");
    }
    assert!(seen.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_may_come_in_pieces_or_break_off() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json; \
        charset=utf-8\r\nConnection: keep-alive\r\nContent-Length: 22\r\n\r\n{\"code\":\"unavailable\"}";
    let chunked = "HTTP/1.1 201 Created\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        2\r\n{}\r\n0\r\n\r\n";
    let half = &ORDERED[..ORDERED.len() - 1];
    for (answer, code) in [
        (ORDERED, "ordered"),
        (unavailable, "unavailable"),
        (chunked, "ordered"),
        ("HTTP/1.0 204 No Content\r\n\r\n", "http_204"),
        (half, "no_answer"),
        ("HTTP/1.1 201 Created\r\ncontent-le", "no_answer"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "no_answer"),
        ("", "no_answer"),
    ] {
        let is_whole = [ORDERED, unavailable].contains(&answer);
        let node = server(move |mut stream| async move {
            while head(&mut stream).await.is_some() {
                for piece in answer.as_bytes().chunks(5) {
                    stream.write_all(piece).await.ok()?;
                    tokio::task::yield_now().await;
                }
                if !is_whole {
                    stream.shutdown().await.ok()?;
                    // To the end, or the closing would tear the answer out of the wire.
                    stream.read_to_end(&mut Vec::new()).await.ok()?;
                }
            }
            Some(())
        });
        let report = run(plan(vec![node.await], (1, 5, 1))).await;
        assert_eq!(outcomes(&report), counts([(code, 5)]), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_cannot_be_carried_out_is_refused() {
    type Change = fn(&mut SteadyPlan);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = async |change: Change| {
        let mut plan = plan(vec![closed], (2, 2, 1));
        change(&mut plan);
        steady::run(plan, Arc::default()).await.unwrap_err()
    };
    let changes: [(Change, &str); 18] = [
        (|plan| plan.nodes.clear(), "lacks a node"),
        (|plan| plan.paths.clear(), "lacks a path"),
        (|plan| plan.tokens.clear(), "lacks a token"),
        (|plan| plan.connections = 0, "lacks a connection"),
        (|plan| plan.connections = usize::MAX, "may open only"),
        (|plan| plan.paths[1] = "buy".into(), "path 1 of"),
        (|plan| plan.paths[1] = "/buy it".into(), "path 1 of"),
        (|plan| plan.paths[0] = "/buy#it".into(), "path 0 of"),
        (|plan| plan.tokens[1] = "line\nbreak".into(), "token 1 of"),
        (
            |plan| plan.arrival = Arrival::Closed { lead_in_ms: 1, duration_ms: 0 },
            "without the lead-in in ms is 0, but",
        ),
        (|plan| plan.answer_timeout_ms = 0, "time-out in ms is 0, but"),
        (|plan| plan.connection_timeout_ms = Some(0), "connection's time-out in ms is 0, but"),
        (|plan| plan.connection_timeout_ms = Some(60_001), "connection's time-out in ms is 60001"),
        (
            |plan| plan.arrival = Arrival::Closed { lead_in_ms: 1, duration_ms: u64::MAX },
            "duration in ms",
        ),
        (|plan| plan.arrival = open(&[]), "duration in ms is 0, but"),
        (|plan| plan.arrival = open(&[(100.0, 10), (0.0, 10)]), "arrivals a second is 0, but"),
        (|plan| plan.arrival = open(&[(f64::NAN, 10)]), "arrivals a second is NaN"),
        (|plan| plan.arrival = open(&[(1e9, 10)]), "arrivals a second is 1000000000, but"),
    ];
    for (change, expected) in changes {
        let refusal = refused(change).await;
        assert!(refusal.to_string().contains(expected), "{refusal}: {expected}");
        assert!(!refusal.outcome_unknown() && !refusal.retry_may_help());
    }
    let refusal = refused(|_| {}).await;
    assert!(matches!(refusal, LoadError::Connect { .. }) && refusal.retry_may_help(), "{refusal}");
}

/// A server that never answers, and the end of each of its connections.
async fn endless() -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
    let (ended, ends) = mpsc::unbounded_channel();
    let node = server(move |mut stream| {
        let ended = ended.clone();
        async move {
            // A reset is an end as well.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            ended.send(()).ok()
        }
    });
    (node.await, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_nobody_waits_for_closes_its_connections() {
    let (node, mut ends) = endless().await;
    let mut plan = plan(vec![node], (1, 1, 1));
    (plan.pairing, plan.connections) = (Pairing::Again, 3);
    let progress = Arc::new(Progress::default());
    let load = tokio::spawn(steady::run(plan, Arc::clone(&progress)));
    eventually("the load has begun", async || progress.done() > 0).await;
    load.abort();
    for _ in 0..3 {
        must("a connection ends", ends.recv()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_its_own_makes_the_load_and_says_how_far_it_is() {
    let gate = Arc::new(Gate::default());
    let mut plan = plan(nodes(2, &gate).await, (4, 25, 5));
    (plan.connections, plan.arrival) = (5, Arrival::Closed { lead_in_ms: 0, duration_ms: 20_000 });
    let mut last = 0;
    let report = crowd_process::steady(testkit::processes::program("seckill"), &plan, |done| {
        assert!((last..=20_000).contains(&done), "{done} after {last}");
        last = done;
    });
    let report = report.await.unwrap();
    assert_eq!(outcomes(&report), counts([("ordered", 100)]));
    assert!(report.exhausted);

    plan.connections = 0;
    let error = crowd_process::steady(testkit::processes::program("seckill"), &plan, |_| {}).await.unwrap_err();
    assert!(matches!(error, LoadError::CrowdEnded(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_none_is_said_to_be_none() {
    let error = process::run_on(&b"{\"nodes\":[]}"[..], Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("not a steady load's plan"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steady_load_whose_reader_is_gone_ends_by_itself() {
    let (node, _ends) = endless().await;
    let plan = serde_json::to_vec(&plan(vec![node], (1, 1, 1))).unwrap();
    let mut child = Command::new(testkit::processes::program("seckill"))
        .arg("steady")
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
    let status = must("the load ends with its reader", child.wait()).await;
    assert!(!status.unwrap().success());
}

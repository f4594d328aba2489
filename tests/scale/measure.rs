//! `make scale`: the same sale of many vouchers on two workers and on one PostgreSQL, and what each part of
//! it costs. On one machine the first cannot be faster: the figure that counts is processor time an order.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use super::citus::{Citus, is_installed};
use super::processor::{Part, PartTimes, Processor};
use testkit::processes::place;
use testkit::redis_nodes::{Cluster, Node};
use testkit::variables;

/// 64 vouchers, and half as many buyers again as there are of them.
const SALE: [&str; 10] =
    ["--vouchers", "64", "--stock", "600", "--users", "57600", "--attempts", "1", "--nodes", "2"];
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Everything that the sale on distributed data stands on.
struct Servers {
    citus: Citus,
    redis: Cluster,
    replicas: Vec<Node>,
}

impl Servers {
    async fn start() -> Self {
        eprintln!("Starting a coordinator, two workers, three Redis masters with a replica each …");
        let redis = Cluster::start(3).await;
        let mut replicas = Vec::new();
        for index in 0..redis.nodes.len() {
            replicas.push(redis.add_replica(index).await);
        }
        let citus = Citus::distributed(2).await.expect("Citus is installed");
        for server in citus.workers.iter().chain([&citus.coordinator]) {
            server.run("alter system set fsync = on").await;
            server.run("select pg_reload_conf()").await;
        }
        Self { citus, redis, replicas }
    }

    fn redis_pids(&self) -> Vec<u32> {
        self.redis.nodes.iter().chain(&self.replicas).map(Node::pid).collect()
    }
}

/// How a sale went.
struct Measured {
    verdict: Value,
    times: PartTimes,
}

impl Measured {
    fn orders_per_s(&self) -> f64 {
        self.verdict["orders_per_s"].as_f64().unwrap()
    }

    fn refused(&self) -> u64 {
        self.verdict["outcomes"]["unavailable"].as_u64().unwrap_or(0)
    }

    fn print(&self, title: &str) {
        let orders = self.verdict["orders"].as_f64().unwrap();
        eprintln!(
            "\n{title}: {orders} orders, {:.0} a second, {} answers 503",
            self.orders_per_s(),
            self.refused()
        );
        for (part, seconds) in &self.times {
            eprintln!(
                "  {part:<16} {seconds:>6.2} CPU s {:>6.0} µs an order",
                seconds * 1e6 / orders
            );
        }
    }
}

/// What a process below the demo is.
fn part_of_demo(words: &str) -> Option<Part> {
    match words.split_once(' ')? {
        ("seckill", "serve") => Some("nodes"),
        ("seckill-tools", "crowd") => Some("load generator"),
        ("postgres", _) => Some("PostgreSQL"),
        ("redis-server", _) => Some("Redis"),
        _ => None,
    }
}

/// Runs the sale. Counted is what passes while the crowd does: not the start, nor the audit.
async fn sell(exe: &Path, servers: Option<&Servers>) -> Measured {
    let place = place();
    let result = place.path().join("result.json");
    let mut command = Command::new(exe);
    command.args(["demo"]).args(SALE).arg("--json").arg(&result);
    command.env_clear().env("RUST_LOG", "error").stdin(Stdio::null()).kill_on_drop(true);
    if let Some(servers) = servers {
        command.env("DATABASE_URL", servers.citus.coordinator.url());
        command.env("REDIS_URL", servers.redis.url());
    }
    let mut demo = command.spawn().unwrap();
    let pid = demo.id().unwrap();
    let (mut processor, mut before) = (Processor::default(), None);
    loop {
        tokio::select! {
            // Its own verdict is harder: it takes a 503 in the first rush for a failure.
            ended = demo.wait() => break assert!(matches!(ended.unwrap().code(), Some(0 | 1))),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let mut now = Processor::default();
        now.look(&[pid], part_of_demo);
        let sends = now.times().contains_key("load generator");
        if sends || before.is_none() {
            processor.look(&[pid], part_of_demo);
            if let Some(servers) = servers {
                let Citus { coordinator, workers } = &servers.citus;
                processor.look(&[coordinator.pid()], |_| Some("coordinator"));
                for worker in workers {
                    processor.look(&[worker.pid()], |_| Some("two workers"));
                }
                processor.look(&servers.redis_pids(), |_| Some("Redis"));
            }
        }
        if sends {
            before.get_or_insert_with(|| processor.times());
        }
    }
    let mut times = processor.times();
    for (part, seconds) in before.expect("a crowd was seen") {
        *times.entry(part).or_default() -= seconds;
    }
    let verdict: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    for broken in ["oversold", "duplicates", "undersold", "lost", "untold", "remaining"] {
        assert_eq!(verdict[broken], 0, "{broken}: {verdict}");
    }
    let answers = verdict["outcomes"].as_object().unwrap();
    let known = |code: &String| ["ordered", "sold_out", "unavailable"].contains(&code.as_str());
    assert!(answers.keys().all(known), "{answers:?}");
    Measured { verdict, times }
}

async fn measure(exe: &Path) {
    let servers = Servers::start().await;
    let distributed = sell(exe, Some(&servers)).await;
    drop(servers);
    let single = sell(exe, None).await;
    distributed.print("Citus, two workers; Redis Cluster, three masters");
    single.print("One PostgreSQL, one Redis");
    let ratio = distributed.orders_per_s() / single.orders_per_s();
    eprintln!("\nThe same machine for all of it: {ratio:.2} of the orders per second.");
    let orders = distributed.verdict["orders"].as_f64().unwrap();
    let most = |part| orders / distributed.times[part];
    eprintln!("A core of a coordinator carries {:.0} orders/s,", most("coordinator"));
    eprintln!("one of a worker {:.0}, one of a node {:.0}.", most("two workers"), most("nodes"));
    let refused = distributed.refused() + single.refused();
    eprintln!("\nHOLDS: both sales, each of 64 vouchers; {refused} answers 503 in the first rush.");
}

/// `make scale`, which says where the program is that was built for speed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_an_order_costs_on_two_workers_and_on_one_database() {
    if !is_installed() {
        return;
    }
    let exe = variables::text("SCALE_PROGRAM").expect("it names the program: make scale");
    tokio::select! {
        () = measure(Path::new(&exe)) => {}
        // What was started is stopped, and its directories go, as by the end of the test.
        _ = tokio::signal::ctrl_c() => panic!("interrupted"),
    }
}

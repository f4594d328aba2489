//! Four nodes that are replaced one by one in the middle of a sale, behind a load balancer that goes by
//! their readiness. What it cannot show is an older program: all nodes run this one. In its place half
//! of them are old to the schema, which a later release has added to meanwhile.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::Client;
use reqwest::header::CONNECTION;
use seckill::purchase::Strategy;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::crowd::{Answer, WIDTH, What, only, read};
use super::sale::Sale;
use super::stage::Stage;
use crate::database::migrations::LATER_RELEASE;
use testkit::processes::Node;
use testkit::wait::eventually;

const NODES: usize = 4;
const SALES: usize = 3;
const STOCK: i32 = 1300;
/// Buyers who are let in while one node is replaced: fewer than there are vouchers, all in all.
const BUYERS_A_STEP: usize = 700;
/// Between two buyers of a worker, so that those of a step last until the old node closes.
const PACE: Duration = Duration::from_millis(40);
const PROBE_EVERY: Duration = Duration::from_millis(20);
const DRAIN_DELAY: &str = "2s";

pub(super) struct Backend {
    address: SocketAddr,
    is_ready: AtomicBool,
}

/// What a load balancer does: it asks each node for its readiness, and deals requests to those that are
/// ready, in turn.
pub(super) struct Balancer {
    client: Client,
    backends: Mutex<Vec<Arc<Backend>>>,
    turn: AtomicUsize,
}

impl Balancer {
    pub(super) fn start(client: Client) -> (Arc<Self>, JoinSet<()>) {
        let (backends, turn) = (Mutex::default(), AtomicUsize::new(0));
        let balancer = Arc::new(Self { client, backends, turn });
        let mut probing = JoinSet::new();
        let prober = Arc::clone(&balancer);
        probing.spawn(async move {
            loop {
                for backend in prober.backends() {
                    let is_ready = readiness(&prober.client, backend.address).await == Some(200);
                    backend.is_ready.store(is_ready, Ordering::Relaxed);
                }
                tokio::time::sleep(PROBE_EVERY).await;
            }
        });
        (balancer, probing)
    }

    fn backends(&self) -> Vec<Arc<Backend>> {
        self.backends.lock().unwrap().clone()
    }

    pub(super) fn ready(&self) -> Vec<Arc<Backend>> {
        let mut backends = self.backends();
        backends.retain(|backend| backend.is_ready.load(Ordering::Relaxed));
        backends
    }

    pub(super) async fn add(&self, address: SocketAddr) {
        let backend = Arc::new(Backend { address, is_ready: AtomicBool::new(false) });
        self.backends.lock().unwrap().push(Arc::clone(&backend));
        eventually("a node is ready", async || backend.is_ready.load(Ordering::Relaxed)).await;
    }

    fn remove(&self, address: SocketAddr) {
        self.backends.lock().unwrap().retain(|backend| backend.address != address);
    }

    /// Sends one purchase, to another node when the first one cannot be reached at all.
    pub(super) async fn buy(&self, path: &str, token: &str) -> (SocketAddr, What) {
        loop {
            let ready = self.ready();
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            // The last that was ready has just refused a connection, and the others were slow to answer a probe.
            if ready.is_empty() {
                tokio::time::sleep(PROBE_EVERY).await;
                continue;
            }
            let backend = &ready[turn % ready.len()];
            let url = format!("http://{}{path}", backend.address);
            match self.client.post(url).bearer_auth(token).send().await {
                Err(refused) if refused.is_connect() => {
                    backend.is_ready.store(false, Ordering::Relaxed);
                }
                answer => return (backend.address, read(answer).await),
            }
        }
    }
}

async fn readiness(client: &Client, node: SocketAddr) -> Option<u16> {
    let answer = client.get(format!("http://{node}/readyz")).send().await.ok()?;
    Some(answer.status().as_u16())
}

/// Buyers who come through the balancer, each for one of the sales, and ask until they are served.
struct Shoppers {
    balancer: Arc<Balancer>,
    sales: Vec<Sale>,
    /// A buyer who comes takes one for good.
    admitted: Semaphore,
    answers: [Mutex<Vec<Answer>>; SALES],
    sold_by: Mutex<HashSet<SocketAddr>>,
    stop: AtomicBool,
}

impl Shoppers {
    async fn work(self: Arc<Self>, worker: usize) {
        for (buyer, token) in self.sales[0].tokens_for(worker) {
            self.admitted.acquire().await.unwrap().forget();
            let sale = buyer as usize % SALES;
            let path = self.sales[sale].path();
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let sent = Instant::now();
                let (node, what) = self.balancer.buy(&path, &token).await;
                let answer = Answer { worker, buyer, sent, took: sent.elapsed(), what };
                if matches!(answer.what, What::Ordered(_)) {
                    self.sold_by.lock().unwrap().insert(node);
                }
                let is_settled = answer.what.is_served() || answer.what == sold_out();
                self.answers[sale].lock().unwrap().push(answer);
                tokio::time::sleep(PACE).await;
                if is_settled {
                    break;
                }
            }
        }
    }

    async fn orders(&self) -> i64 {
        let mut orders = 0;
        for sale in &self.sales {
            orders += sale.orders().await;
        }
        orders
    }
}

fn sold_out() -> What {
    What::Else("sold_out".to_owned())
}

async fn started(sale: &Sale, balancer: &Balancer) -> Node {
    let mut command = sale.serve(&sale.database_url);
    let node = Node::start(command.args(["--drain-delay", DRAIN_DELAY])).await;
    balancer.add(node.address).await;
    node
}

/// Readiness goes first. A request that comes all the same is served meanwhile, and its connection is closed. One
/// who is told 503 asks again.
async fn drains(sale: &Sale, node: &Node, late: i64) -> Answer {
    node.send(Signal::SIGTERM);
    eventually("the node is not ready", async || {
        readiness(&sale.client, node.address).await == Some(503)
    })
    .await;
    let url = format!("http://{}{}", node.address, sale.path());
    loop {
        let sent = Instant::now();
        let asking = sale.client.post(&url).bearer_auth(sale.token(late)).send();
        let answer = asking.await.unwrap();
        assert_eq!(answer.headers().get(CONNECTION).unwrap(), "close");
        let what = read(Ok(answer)).await;
        if what != What::Unavailable {
            assert!(what.is_served(), "{what:?}");
            return Answer { worker: WIDTH, buyer: late, sent, took: sent.elapsed(), what };
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_nodes_are_replaced_one_by_one_and_nobody_notices() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let (balancer, _probing) = Balancer::start(stage.client.clone());
    let mut sales = Vec::new();
    for _ in 0..SALES {
        sales.push(stage.another_of(STOCK).await);
    }
    let (mut nodes, mut replacements) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        nodes.push(started(&stage, &balancer).await);
    }
    let mut all: HashSet<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let shoppers = Arc::new(Shoppers {
        balancer: Arc::clone(&balancer),
        sales,
        admitted: Semaphore::new(BUYERS_A_STEP),
        answers: Default::default(),
        sold_by: Mutex::default(),
        stop: AtomicBool::new(false),
    });
    let mut workers = JoinSet::new();
    for worker in 0..WIDTH {
        workers.spawn(Arc::clone(&shoppers).work(worker));
    }
    eventually("the sale is under way", async || shoppers.orders().await >= 100).await;

    for (step, mut old) in nodes.into_iter().enumerate() {
        if step == NODES / 2 {
            sqlx::raw_sql(LATER_RELEASE).execute(&stage.pool).await.unwrap();
        }
        let new = started(&stage, &balancer).await;
        all.insert(new.address);
        shoppers.admitted.add_permits(BUYERS_A_STEP);
        let before = shoppers.orders().await;
        // Nobody of the crowd comes so late in the list.
        let late = drains(&shoppers.sales[0], &old, 19_000 + step as i64).await;
        shoppers.answers[0].lock().unwrap().push(late);
        assert_eq!(old.ended().await.code(), Some(0));
        balancer.remove(old.address);
        eventually("the sale goes on", async || shoppers.orders().await >= before + 100).await;
        replacements.push(new);
    }
    shoppers.admitted.add_permits(10 * BUYERS_A_STEP);
    let everything = i64::from(STOCK) * SALES as i64;
    eventually("everything is sold", async || shoppers.orders().await >= everything).await;
    shoppers.stop.store(true, Ordering::Relaxed);
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }

    for (sale, answers) in shoppers.sales.iter().zip(&shoppers.answers) {
        let answers = answers.lock().unwrap().clone();
        only(&answers, &[sold_out()]);
        assert_eq!(sale.orders().await, i64::from(STOCK));
        sale.settle(&answers).await;
    }
    assert_eq!(*shoppers.sold_by.lock().unwrap(), all, "every node has sold");
    stage.end().await;
}

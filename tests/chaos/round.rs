//! One round: a sale on two nodes, the faults of its plan, and then the books.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use faults::{Fault as NetworkFault, Proxy};
use nix::sys::signal::Signal;
use private_stores::Server;
use seckill::telemetry::name::CLOCK_OFFSET;
use sqlx::{Connection, Executor, PgConnection};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::machine::{Clock, Machine, SmallDisk};
use super::money::Money;
use super::plan::{Disk, Fault, Reach, Round, Step, Victim};
use crate::faults::crowd::{Answer, Crowd, WIDTH, What, only};
use crate::faults::sale::{CLIENT_PATIENCE, MANY_USERS, Sale};
use crate::faults::stage::Stage;
use testkit::processes::{Node, is_alive};
use testkit::servers;
use testkit::wait::{PATIENCE, eventually};

/// Everything sells again within this time after the last fault is over, without a hand.
pub const SELLS_AGAIN_WITHIN: Duration = Duration::from_secs(15);

/// On sale in each round, beside the one that costs money: a transaction has orders of several.
const VOUCHERS: usize = 50;

/// How long a slow connection to PostgreSQL takes: longer than a purchase waits for one.
const SLOW_CONNECTION: Duration = Duration::from_millis(1_500);

/// How long PostgreSQL is cut off where the connections are to break, and no more.
const CUT_FOR: Duration = Duration::from_millis(20);

/// Servers, which one round after the other uses.
pub struct Ground {
    stage: Stage,
    /// Under the data of the servers, if it can be filled, and whose writes that is to stop.
    disk: Option<(SmallDisk, Server)>,
}

impl Ground {
    /// For rounds like this one.
    pub async fn for_round(round: &Round) -> Self {
        let Some(stopped) = round.fills_disk_of() else {
            let servers = servers::own_of(true, true).await;
            let stage = Stage::on(servers, round.strategy, MANY_USERS).await;
            return Self { stage, disk: None };
        };
        let (disk, servers) = tokio::task::spawn_blocking(SmallDisk::start).await.unwrap();
        if stopped == Server::Postgres {
            // Redis would refuse every purchase before PostgreSQL is asked. Switched off once for
            // all: a Redis that switches it on while its disk is full may not recover.
            let client = redis::Client::open(servers.redis_url().unwrap()).unwrap();
            let mut command = redis::cmd("CONFIG");
            command.arg(&["SET", "appendonly", "no"]);
            command.exec(&mut client.get_connection().unwrap()).unwrap();
        }
        let stage = Stage::on(servers, round.strategy, MANY_USERS).await;
        Self { stage, disk: Some((disk, stopped)) }
    }

    pub fn suits(&self, round: &Round) -> bool {
        self.disk.as_ref().map(|(_, stopped)| *stopped) == round.fills_disk_of()
    }

    pub async fn end(self) {
        self.stage.end().await;
    }
}

/// What a round that held has to tell.
#[derive(Debug, Clone)]
pub struct Figures {
    pub orders: usize,
    /// Orders that a buyer was told of on asking again.
    pub named: usize,
    pub unavailable: usize,
    /// From the end of the last fault to the first order.
    pub first: Duration,
    /// The same to the moment at which every buyer has had an order.
    pub all: Duration,
    /// What became of the sale for money.
    pub money: String,
    /// The rare states to which it came.
    pub reached: Vec<&'static str>,
}

struct Running<'a> {
    stage: &'a mut Stage,
    disk: Option<&'a SmallDisk>,
    clock: Option<Clock>,
    /// Before which server, and for which node.
    proxies: Vec<(Server, usize, Proxy)>,
    /// The second one is the victim of faults.
    nodes: Vec<Node>,
    money: Money,
    /// Holds orders until it is aborted.
    holder: Option<JoinHandle<()>>,
}

impl<'a> Running<'a> {
    async fn start(ground: &'a mut Ground, machine: &Machine, round: &Round) -> Self {
        let jumps = round.steps.iter().any(|step| matches!(step.fault, Fault::ClockJump(_)));
        let money = Money::open(&ground.stage.sale, round.seed).await;
        let mut running = Self {
            stage: &mut ground.stage,
            disk: ground.disk.as_ref().map(|(disk, _)| disk),
            clock: jumps.then(|| machine.clock()),
            proxies: Vec::new(),
            nodes: Vec::new(),
            money,
            holder: None,
        };
        for step in &round.steps {
            match step.fault {
                Fault::Cut(server, _, reach) => running.put_proxies_before(server, reach).await,
                Fault::SlowReconnect(reach) => {
                    running.put_proxies_before(Server::Postgres, reach).await;
                }
                _ => {}
            }
        }
        for node in 0..2 {
            let mut command = running.serve(node, ([127, 0, 0, 1], 0).into());
            running.nodes.push(Node::start(&mut command).await);
        }
        running
    }

    async fn put_proxies_before(&mut self, server: Server, reach: Reach) {
        let sale = &self.stage.sale;
        for node in usize::from(reach == Reach::SecondNode)..2 {
            if self.proxy(server, node).is_some() {
                continue;
            }
            let proxy = match server {
                Server::Redis => Proxy::start(&sale.redis_url).await,
                Server::Postgres => Proxy::before_postgres(&sale.database_url).await,
            };
            self.proxies.push((server, node, proxy.unwrap()));
        }
    }

    fn proxy(&self, server: Server, node: usize) -> Option<&Proxy> {
        self.proxies.iter().find(|it| (it.0, it.1) == (server, node)).map(|it| &it.2)
    }

    fn proxies(&self, server: Server) -> impl Iterator<Item = &Proxy> {
        self.proxies.iter().filter(move |it| it.0 == server).map(|it| &it.2)
    }

    fn serve(&self, node: usize, listen: SocketAddr) -> Command {
        let sale = &self.stage.sale;
        let redis = self.proxy(Server::Redis, node).map_or(sale.redis_url.as_str(), Proxy::url);
        let postgres = self.proxy(Server::Postgres, node).map_or(&*sale.database_url, Proxy::url);
        let mut command = sale.serve_at(listen, postgres, redis);
        self.money.configure(&mut command);
        if let Some(clock) = self.clock.as_ref().filter(|_| node == 1) {
            clock.apply(&mut command);
        }
        command
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(victim) => self.signal(victim, Signal::SIGKILL),
            Fault::Pause(victim) => self.signal(victim, Signal::SIGSTOP),
            Fault::Cut(server, fault, _) => self.break_by(server, fault),
            Fault::ClockJump(minutes) => self.clock.as_ref().unwrap().show(minutes),
            Fault::DiskFull(disk) => self.fill(disk),
            Fault::HoldOrders => {
                let url = self.stage.sale.database_url.clone();
                self.holder = Some(tokio::spawn(hold_orders(url)));
            }
            Fault::SlowReconnect(_) => {
                self.slow_down(SLOW_CONNECTION);
                self.break_by(Server::Postgres, NetworkFault::Down);
                tokio::time::sleep(CUT_FOR).await;
                self.break_by(Server::Postgres, NetworkFault::None);
            }
        }
    }

    /// What an operator, an init system or the network does; the nodes are left alone. A node
    /// that was killed is not started before its stores run.
    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(Victim::Node) => {}
            Fault::Kill(Victim::Server(server)) => self.stage.restart(server),
            Fault::Pause(victim) => self.signal(victim, Signal::SIGCONT),
            Fault::Cut(server, _, _) => self.break_by(server, NetworkFault::None),
            Fault::ClockJump(_) => self.clock.as_ref().unwrap().show(0),
            Fault::DiskFull(_) => {
                self.disk.unwrap().free();
                self.start_what_ended().await;
            }
            // Its connection breaks, so what it did is taken back.
            Fault::HoldOrders => self.holder.take().unwrap().abort(),
            Fault::SlowReconnect(_) => self.slow_down(Duration::ZERO),
        }
    }

    /// As an init system does. PostgreSQL may be about to end: it recovers, and gives up when it
    /// cannot write, perhaps a moment after there was room again.
    async fn start_what_ended(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for server in [Server::Redis, Server::Postgres] {
                if !self.stage.servers.pid(server).is_some_and(is_alive) {
                    eprintln!("{server} ended on the full disk, and is started again");
                    self.stage.restart(server);
                }
            }
            if PgConnection::connect(&self.stage.sale.database_url).await.is_ok() {
                return;
            }
            assert!(Instant::now() < deadline, "PostgreSQL does not come up again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn fill(&self, disk: Disk) {
        self.disk.unwrap().fill();
        if disk == Disk::WriteAheadLog {
            let pool = self.stage.sale.pool.clone();
            tokio::spawn(async move {
                // Files that were made ahead are used up first. Ends with the server.
                for _ in 0..50 {
                    if sqlx::query("select pg_switch_wal()").execute(&pool).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    }

    fn signal(&self, victim: Victim, signal: Signal) {
        match victim {
            Victim::Node => self.nodes[1].send(signal),
            Victim::Server(server) => self.stage.signal(server, signal),
        }
    }

    fn break_by(&self, server: Server, fault: NetworkFault) {
        self.proxies(server).for_each(|proxy| proxy.break_by(fault));
    }

    fn slow_down(&self, connecting: Duration) {
        self.proxies(Server::Postgres).for_each(|proxy| proxy.slow_down(connecting));
    }

    /// All the steps, each at its time. Returns when the last one is over.
    async fn faults(&mut self, steps: &[Step]) -> Instant {
        let mut events: Vec<(Duration, bool, Fault)> = Vec::new();
        for step in steps {
            events.push((step.begins, true, step.fault));
            events.push((step.begins + step.lasts, false, step.fault));
        }
        events.sort_by_key(|(at, ..)| *at);
        let began = Instant::now();
        for (at, begins, fault) in events {
            tokio::time::sleep(at.saturating_sub(began.elapsed())).await;
            if begins {
                self.begin(fault).await;
                continue;
            }
            // Where nothing else goes on, the jump has to be seen.
            if matches!(fault, Fault::ClockJump(_)) && steps.len() == 1 {
                let (sale, node) = (&self.stage.sale, self.nodes[1].address);
                let jumped = async || knows_of_a_wrong_clock(sale, node).await;
                eventually("the node knows that its clock is off", jumped).await;
            }
            self.end(fault).await;
        }
        if steps.iter().any(|step| step.fault == Fault::Kill(Victim::Node)) {
            let mut dead = self.nodes.pop().unwrap();
            assert!(!dead.ended().await.success());
            let mut command = self.serve(1, dead.address);
            self.nodes.push(Node::start(&mut command).await);
        }
        Instant::now()
    }
}

/// Holds the newest orders until it is aborted, or until its database ends.
async fn hold_orders(database_url: String) {
    let Ok(mut session) = PgConnection::connect(&database_url).await else { return };
    let hold = "begin; update orders set updated_at = updated_at
                where id in (select id from orders order by id desc limit 100)";
    if session.execute(hold).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Runs a round. Panics, saying why, where a promise was broken.
pub async fn run(ground: &mut Ground, machine: &Machine, round: &Round) -> Figures {
    ground.stage.sale = ground.stage.sale.another(round.strategy).await.of_vouchers(VOUCHERS).await;
    let mut running = Running::start(ground, machine, round).await;
    let addresses: Vec<SocketAddr> = running.nodes.iter().map(|node| node.address).collect();
    let crowd = Crowd::start(&running.stage.sale, &running.nodes);
    running.money.begin(&running.stage.sale, &addresses);
    crowd.orders_after(Instant::now(), round.orders_before).await;
    let mended = running.faults(&round.steps).await;
    let (first, all) = sells_again(&crowd, mended).await;
    let answers = crowd.go_home().await;
    let (money, reached) = running.money.settle(&running.stage.sale).await;
    judge(&running.stage.sale, round, &answers).await;
    let count = |wanted: fn(&What) -> bool| answers.iter().filter(|one| wanted(&one.what)).count();
    Figures {
        orders: count(|what| matches!(what, What::Ordered(_))),
        named: count(|what| matches!(what, What::AlreadyBought(_))),
        unavailable: count(|what| *what == What::Unavailable),
        first,
        all,
        money,
        reached,
    }
}

/// How long after `since` the first order was acknowledged, and how long until every worker of
/// the crowd had one.
async fn sells_again(crowd: &Crowd, since: Instant) -> (Duration, Duration) {
    loop {
        let first = crowd.first_orders_after(since);
        if let Some(every) = first.into_iter().collect::<Option<Vec<Duration>>>() {
            let (Some(first), Some(last)) = (every.iter().min(), every.iter().max()) else {
                unreachable!("a crowd has workers");
            };
            return (*first, *last);
        }
        let served = first.iter().flatten().count();
        assert!(
            since.elapsed() <= SELLS_AGAIN_WITHIN,
            "{} of {WIDTH} buyers are not served {} s after the last fault",
            WIDTH - served,
            SELLS_AGAIN_WITHIN.as_secs(),
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The books hold, every order that a buyer was told of is in them, and no buyer was told what
/// does not belong to the faults.
async fn judge(sale: &Sale, round: &Round, answers: &[Answer]) {
    let on_second_node = |answer: &Answer| answer.worker % 2 == 1;
    let (of_second, of_first): (Vec<_>, Vec<_>) = answers.iter().cloned().partition(on_second_node);
    only(&of_first, &[]);
    let mut belong = Vec::new();
    for step in &round.steps {
        match step.fault {
            // Its connections break.
            Fault::Kill(Victim::Node) => belong.push(What::Nothing),
            // It answers nobody; a client gives up before it goes on.
            Fault::Pause(Victim::Node) if step.lasts + SLOW > CLIENT_PATIENCE => {
                belong.push(What::Else("hang".to_owned()));
            }
            _ => {}
        }
    }
    only(&of_second, &belong);
    sale.settle(answers).await;
}

/// Whether the node knows that its clock is off: it sells by the database's.
async fn knows_of_a_wrong_clock(sale: &Sale, node: SocketAddr) -> bool {
    let answer = sale.client.get(format!("http://{node}/metrics")).send().await;
    let Ok(answer) = answer else { return false };
    let text = answer.text().await.unwrap_or_default();
    let offset = text.lines().find_map(|line| line.strip_prefix(CLOCK_OFFSET)?.trim().parse().ok());
    offset.is_some_and(|offset: f64| offset.abs() > 50.0)
}

/// The longest time in which a purchase is answered, and some more on a busy machine.
const SLOW: Duration = Duration::from_secs(2);

//! The server over HTTP, by `wrk`: what the strategies sell, how fast they refuse, and a handler that does
//! nothing behind the same router.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use chrono::TimeDelta;
use seckill::config::MAX_BURST;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::purchase::{DEFAULT_BURST, Strategy};
use seckill::store::vouchers;
use tokio::time::sleep;

use super::Testbed;
use super::cpu::{cpu_each, most_memory_mb};
use super::overload::connections_of;
use super::postgresql::settle;
use super::programs::{GRACE, output_of};
use super::results::{BESIDE_HEALTHZ, BESIDE_LIST, BESIDE_VOUCHER, Readings};
use program::node::{Node, NodeOptions};
use report::machine::cores;

/// What wrk sends.
pub(super) const BUY_LUA: &str = include_str!("../../../../loadtest/wrk/buy.lua");
/// Those who buy, with their tokens.
pub(super) const BUYERS: &str = "tokens.csv";
/// Those who buy beside them.
pub(super) const OTHERS: &str = "others.csv";
/// Never sold out.
pub(super) const STOCK: i32 = 100_000_000;
/// Before each measurement: memory, plans and connections are new.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long wrk waits for an answer before it counts as none.
const PATIENCE: &str = "30s";

/// Connections that read beside a purchase.
const READERS: usize = 4_000;
/// What they read; `ID` is the voucher that is bought.
pub(super) const READ: [(&str, &str); 3] = [
    (BESIDE_HEALTHZ, "/healthz"),
    (BESIDE_VOUCHER, "/api/vouchers/ID"),
    (BESIDE_LIST, "/api/vouchers"),
];

/// Vouchers, and the path at which `buy.lua` buys them in turn.
#[derive(Debug)]
pub(super) struct OnSale {
    pub(super) ids: Vec<VoucherId>,
    pub(super) path: String,
}

/// What `buy.lua` reports in its last line: a number for each name.
#[derive(Debug)]
pub(super) struct Answers(BTreeMap<String, u64>);

impl Answers {
    fn read(report: &str) -> Option<Self> {
        let line = report.lines().find_map(|line| line.strip_prefix("RESULT "))?;
        let pairs = line.split(' ').map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// So many a second, and how long an answer took.
    pub(super) fn figures(&self, counted: &str) -> Readings {
        let seconds = (self.count("duration_us") as f64 / 1e6).max(f64::MIN_POSITIVE);
        let ms = |name| self.count(name) as f64 / 1e3;
        let per_s = self.count(counted) as f64 / seconds;
        Readings::from([("per_s", per_s), ("p50_ms", ms("p50_us")), ("p99_ms", ms("p99_us"))])
    }
}

impl Testbed {
    /// Starts a server.
    pub(super) async fn start(&self, strategy: Strategy) -> anyhow::Result<Node> {
        Node::start(NodeOptions {
            database_url: self.stores.database_url.clone(),
            redis_url: self.stores.redis_url.clone(),
            key_prefix: self.stores.key_prefix.to_string(),
            secret: self.secret.clone(),
            strategy: strategy.as_str(),
            burst: DEFAULT_BURST,
            connections: MAX_BURST,
            listen: None,
            admin_phone: None,
            has_sandbox: false,
        })
        .await
    }

    /// Confirmed orders a second.
    pub(super) async fn orders(
        &mut self,
        name: &str,
        strategy: Strategy,
        vouchers: usize,
        connections: usize,
    ) -> anyhow::Result<Readings> {
        let node = self.start(strategy).await?;
        let warm = self.put_on_sale(name, vouchers, STOCK).await?;
        let on_sale = self.put_on_sale(name, vouchers, STOCK).await?;
        settle(&self.database).await;
        let paths = [&warm.path, &on_sale.path].map(String::as_str);
        let (answers, mut figures) =
            self.measure_node(name, node, paths, connections, ["below_400", "from_400"]).await?;
        let stored = self.check_books(name, &answers, 0, &on_sale.ids, connections).await?;
        let confirmed = answers.count("below_400");
        figures.extend([("confirmed", confirmed as f64), ("stored", stored as f64)]);
        Ok(figures)
    }

    /// Confirmed orders a second of so many vouchers, by a quarter of the connections, while the others buy one more.
    pub(super) async fn beside_hot(
        &mut self,
        name: &str,
        strategy: Strategy,
        vouchers: usize,
    ) -> anyhow::Result<Readings> {
        let node = self.start(strategy).await?;
        let warm = self.put_on_sale(name, vouchers, STOCK).await?;
        let cool = self.put_on_sale(name, vouchers, STOCK).await?;
        let hot = self.put_on_sale(name, 1, STOCK).await?;
        let few = (self.connections / 4).max(1);
        let many = self.connections - few;
        self.wrk(&node, (BUYERS, &warm.path), few, WARM_UP, &[]).await?;
        settle(&self.database).await;
        let (answers, beside) = tokio::try_join!(
            self.wrk(&node, (BUYERS, &cool.path), few, self.duration, &[]),
            self.wrk(&node, (OTHERS, &hot.path), many, self.duration, &[]),
        )?;
        node.stop().await?;
        self.check_books(name, &answers, 0, &cool.ids, few).await?;
        self.check_books(name, &beside, 0, &hot.ids, many).await?;
        let mut figures = answers.figures("below_400");
        figures.insert("hot_per_s", beside.figures("below_400")["per_s"]);
        Ok(figures)
    }

    /// How long a lone buyer waits beside thousands of connections that read.
    pub(super) async fn beside_readers(
        &mut self,
        name: &str,
        path: &str,
    ) -> anyhow::Result<Readings> {
        let node = self.start(Strategy::default()).await?;
        let on_sale = self.put_on_sale(name, 1, STOCK).await?;
        let path = path.replace("ID", &on_sale.ids[0].to_string());
        let mut readers = Command::new(&self.programs.wrk);
        readers
            .args(["--threads", "2", "--connections", &connections_of(READERS)?.to_string()])
            .args(["--duration", &(self.duration + WARM_UP * 2).as_secs().to_string()])
            .args(["--timeout", PATIENCE])
            .arg(format!("http://{}{path}", node.address));
        let buyer = async {
            sleep(WARM_UP).await;
            self.wrk(&node, (BUYERS, &on_sale.path), 1, self.duration, &[]).await
        };
        let (report, answers) =
            tokio::try_join!(output_of(readers, self.duration + WARM_UP * 2 + GRACE), buyer)?;
        node.stop().await?;
        self.check_books(name, &answers, 0, &on_sale.ids, 1).await?;
        ensure!(!report.contains("Non-2xx"), "readers were refused: {report}");
        let mut figures = answers.figures("below_400");
        let read = report.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
        let read = read.and_then(|rate| rate.trim().parse().ok());
        figures.insert("read_per_s", read.with_context(|| format!("wrk said: {report}"))?);
        Ok(figures)
    }

    /// How many were taken from the stock.
    pub(super) async fn taken(&self, ids: &[VoucherId]) -> anyhow::Result<u64> {
        let taken: i64 = sqlx::query_scalar(
            "select sum(initial_stock - stock) from seckill_vouchers where voucher_id = any($1)",
        )
        .bind(ids.iter().map(|id| id.get()).collect::<Vec<_>>())
        .fetch_one(self.database.pool())
        .await?;
        Ok(taken.unsigned_abs())
    }

    /// Refusals a second of a voucher that is sold out. Its only one is sold first.
    pub(super) async fn sold_out(&mut self, name: &str) -> anyhow::Result<Readings> {
        let node = self.start(Strategy::default()).await?;
        let on_sale = self.put_on_sale(name, 1, 1).await?;
        let answers = self.wrk(&node, (BUYERS, &on_sale.path), 2, WARM_UP, &["detail"]).await?;
        let [sold, refused] = ["status_201", "status_409"].map(|status| answers.count(status));
        let is_right = sold == 1 && sold + refused == answers.count("requests");
        ensure!(is_right, "one should have been sold, and everybody else refused: {:?}", answers.0);
        self.refusals(name, node, &on_sale.path).await
    }

    /// Answers a second of the handler that does nothing.
    pub(super) async fn do_nothing(&mut self, name: &str) -> anyhow::Result<Readings> {
        let node = Node::start_bare().await?;
        self.refusals(name, node, "/api/vouchers/1/orders").await
    }

    async fn refusals(&mut self, name: &str, node: Node, path: &str) -> anyhow::Result<Readings> {
        let classes = ["from_400", "below_400"];
        Ok(self.measure_node(name, node, [path; 2], self.connections, classes).await?.1)
    }

    /// Lets wrk buy at the first path, which does not count, and then at the second. All answers should be
    /// of one class and none of the other.
    async fn measure_node(
        &mut self,
        name: &str,
        node: Node,
        [warm, path]: [&str; 2],
        connections: usize,
        [wanted, unwanted]: [&str; 2],
    ) -> anyhow::Result<(Answers, Readings)> {
        let warmed = self.wrk(&node, (BUYERS, warm), connections, WARM_UP, &[]).await?;
        let before = self.meter.read(Some(&node)).await;
        let answers = self.wrk(&node, (BUYERS, path), connections, self.duration, &[]).await?;
        let after = self.meter.read(Some(&node)).await;
        let memory = most_memory_mb(&node);
        // It finishes what it has begun.
        node.stop().await?;
        for answers in [&warmed, &answers] {
            if answers.count(unwanted) + answers.count("socket_errors") > 0 {
                self.void.push(format!("{name}: not only answers {wanted}: {:?}", answers.0));
            }
        }
        let mut figures = answers.figures(wanted);
        figures.extend(cpu_each(&before, &after, answers.count(wanted) as f64));
        figures.extend(memory.map(|mb| ("memory_mb", mb)));
        Ok((answers, figures))
    }

    /// Every confirmed order, those that others were told of among them, was taken from the stock; so many
    /// more may have been. (The audit at the end holds the stock against the orders.)
    pub(super) async fn check_books(
        &mut self,
        name: &str,
        answers: &Answers,
        others: u64,
        ids: &[VoucherId],
        unsure: usize,
    ) -> anyhow::Result<u64> {
        let stored = self.taken(ids).await?;
        let confirmed = answers.count("below_400") + others;
        let unanswered = answers.count("socket_errors");
        if !(confirmed..=confirmed + unanswered + unsure as u64).contains(&stored) {
            self.void.push(format!("{name}: {confirmed} orders confirmed, {stored} in the books"));
        }
        if answers.count("repeats") + unanswered > 0 {
            let what = "buyers came twice (take a shorter time), or got no answer";
            self.void.push(format!("{name}: {what}: {:?}", answers.0));
        }
        Ok(stored)
    }

    /// Lets these buyers buy at this path for a while, by wrk.
    pub(super) async fn wrk(
        &self,
        node: &Node,
        (buyers, path): (&str, &str),
        connections: usize,
        time: Duration,
        words: &[&str],
    ) -> anyhow::Result<Answers> {
        // It shares the processors: a few of many are enough.
        let threads = (cores() / 4).max(2).min(connections).to_string();
        let file = |name| self.directory.path().join(name);
        let mut command = Command::new(&self.programs.wrk);
        command
            .args(["--threads", &threads, "--connections", &connections.to_string()])
            .args(["--duration", &time.as_secs().to_string(), "--timeout", PATIENCE, "--script"])
            .arg(file("buy.lua"))
            .args([&format!("http://{}{path}", node.address), "--"])
            .arg(file(buyers))
            .arg(threads)
            .args(words);
        let report = output_of(command, time + GRACE).await?;
        Answers::read(&report).with_context(|| format!("wrk said: {report}"))
    }

    /// Puts vouchers on sale.
    pub(super) async fn put_on_sale(
        &mut self,
        title: &str,
        count: usize,
        stock: i32,
    ) -> anyhow::Result<OnSale> {
        let now = SystemClock.now();
        let title = format!("Ceiling: {title}");
        let new = NewVoucher::free(title, stock, now, now + TimeDelta::days(1));
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(vouchers::create(self.database.pool(), &new, now).await?.id);
        }
        self.sold.extend(&ids);
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        Ok(OnSale { ids, path: format!("/api/vouchers/{}/orders", list.join(",")) })
    }
}

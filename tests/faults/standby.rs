//! A primary that dies for good in the middle of a sale, and its standby, which takes over: with
//! synchronous replication no order is lost, with asynchronous replication the last ones are.

use std::time::{Duration, Instant};

use faults::{Fault, PostgresNode, Proxy, RedisNode};
use seckill::purchase::Strategy;
use sqlx::{Connection, PgConnection};

use super::crowd::{Answer, Crowd, What, only};
use super::sale::{Sale, USERS};
use super::stage::SOLD_BY;
use testkit::processes::Node;
use testkit::wait::eventually;

/// Longer than the server lets a statement run: not even then is an order acknowledged that the
/// standby does not have.
const LONGER_THAN_A_STATEMENT: Duration = Duration::from_millis(5500);
const ORDERS: usize = 100;

async fn connect(server: &PostgresNode) -> PgConnection {
    PgConnection::connect(server.url()).await.unwrap()
}

/// Waits until the answer to `question` is yes.
async fn until(server: &PostgresNode, question: &'static str) {
    let mut connection = connect(server).await;
    eventually(question, async || {
        sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap()
    })
    .await;
}

/// A sale on two nodes, a primary, and a standby that follows it through a proxy.
struct Replicated {
    primary: PostgresNode,
    standby: PostgresNode,
    replication: Proxy,
    sale: Sale,
    nodes: [Node; 2],
    crowd: Crowd,
    _redis: RedisNode,
}

impl Replicated {
    async fn new(strategy: Strategy, synchronous: bool) -> Self {
        eprintln!("strategy {strategy}");
        let redis = RedisNode::start(&[]).await.unwrap();
        let primary = PostgresNode::primary_at(None).await.unwrap();
        let replication = primary.proxy().await.unwrap();
        let standby = PostgresNode::standby_at(None, &replication).await.unwrap();
        if synchronous {
            let mut connection = connect(&primary).await;
            let names = "alter system set synchronous_standby_names = 'standby'";
            for statement in [names, "select pg_reload_conf()"] {
                sqlx::query(statement).execute(&mut connection).await.unwrap();
            }
            let is_synchronous =
                "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'";
            until(&primary, is_synchronous).await;
        }
        let sale = Sale::open((primary.url(), &redis.url()), strategy, USERS).await;
        let nodes = [sale.node().await, sale.node().await];
        let crowd = Crowd::buying(&sale, &nodes).await;
        Self { primary, standby, replication, sale, nodes, crowd, _redis: redis }
    }

    /// Cuts the standby off. Whatever is sent to a node after this returns does not reach it.
    async fn cut_replication(&self) -> Instant {
        self.replication.break_by(Fault::Down);
        until(&self.primary, "select count(*) = 0 from pg_stat_replication").await;
        Instant::now()
    }

    /// The primary dies, the standby is promoted, and a node sells on there, to the same buyers
    /// and to new ones. Returns the sale as it is there, and what its buyers were told before.
    async fn fail_over(mut self) -> (Promoted, Vec<Answer>) {
        let killed = Instant::now();
        self.primary.kill();
        self.crowd.refusals_after(killed).await;
        let before = self.crowd.go_home().await;
        only(&before, &[]);
        drop(self.nodes);
        self.standby.promote().await.unwrap();
        let sale = self.sale.at(self.standby.url());
        let node = sale.node().await;
        Crowd::buying(&sale, [&node]).await.settle(&sale, &[]).await;
        (Promoted { sale, node, _server: self.standby, _redis: self._redis }, before)
    }
}

struct Promoted {
    sale: Sale,
    node: Node,
    _server: PostgresNode,
    _redis: RedisNode,
}

fn ordered_after(answers: &[Answer], since: Instant) -> impl Iterator<Item = &Answer> {
    let ordered =
        move |answer: &&Answer| answer.sent >= since && matches!(answer.what, What::Ordered(_));
    answers.iter().filter(ordered)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_a_synchronous_standby_loses_no_order() {
    for strategy in SOLD_BY {
        let replicated = Replicated::new(strategy, true).await;
        let (promoted, before) = replicated.fail_over().await;
        promoted.sale.settle(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_acknowledged_that_a_synchronous_standby_does_not_have() {
    let replicated = Replicated::new(Strategy::GroupCommit, true).await;
    let cut = replicated.cut_replication().await;
    replicated.crowd.refusals_after(cut + LONGER_THAN_A_STATEMENT).await;
    let (promoted, before) = replicated.fail_over().await;
    assert_eq!(ordered_after(&before, cut).count(), 0);
    promoted.sale.settle(&before).await;
}

/// The documented limit: what was acknowledged and had not arrived is gone. What is there is
/// whole, and a buyer whose order is gone can buy again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_an_asynchronous_standby_loses_what_it_had_not_received() {
    let replicated = Replicated::new(Strategy::GroupCommit, false).await;
    let cut = replicated.cut_replication().await;
    replicated.crowd.orders_after(cut, ORDERS).await;
    let (promoted, before) = replicated.fail_over().await;
    let lost = promoted.sale.lost(&before).await;
    let after_cut: Vec<&Answer> = ordered_after(&before, cut).collect();
    assert!(after_cut.len() >= ORDERS);
    for answer in &after_cut {
        assert!(lost.iter().any(|lost| lost.what == answer.what), "{answer:?}");
    }
    let (buyer, told) = (after_cut[0].buyer, &after_cut[0].what);
    // It bought again already, or buys now.
    let again = promoted.sale.buy(promoted.node.address, buyer).await;
    let (What::Ordered(new) | What::AlreadyBought(new)) = again else { panic!("{again:?}") };
    assert_ne!(*told, What::Ordered(new));
}

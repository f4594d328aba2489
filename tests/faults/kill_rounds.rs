//! `kill -9` of a node, Redis and PostgreSQL, alone or together, at a random moment of a sale
//! that commits in groups. A seed says who is killed and when.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seckill::embedded::Server;
use seckill::seckill::Strategy;

use super::crowd::{Crowd, What, in_progress, only};
use super::stage::Stage;

/// What is sold after everything runs again, to know that it does.
const ORDERS_AFTER: usize = 100;

async fn round(seed: u64, strategy: Strategy) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut stage = Stage::durable(strategy).await;
    let (living, mut dying) = (stage.node().await, stage.node().await);
    let crowd = Crowd::start(&stage, &[living.address, dying.address]);
    crowd.orders_after(Instant::now(), random.random_range(50..300)).await;
    // Anywhere in a batch, which takes a few of these.
    tokio::time::sleep(Duration::from_micros(random.random_range(0..20_000))).await;

    let mut victims: Vec<&str> = vec!["node", "Redis", "PostgreSQL"];
    victims.retain(|_| random.random_bool(0.5));
    if victims.is_empty() {
        victims.push("node");
    }
    for victim in &victims {
        match *victim {
            "node" => dying.send(Signal::SIGKILL),
            "Redis" => stage.signal(Server::Redis, Signal::SIGKILL),
            _ => stage.signal(Server::Postgres, Signal::SIGKILL),
        }
    }
    let fault = Instant::now();
    tokio::time::sleep(Duration::from_millis(random.random_range(0..1_500))).await;
    if victims.contains(&"Redis") {
        stage.restart(Server::Redis);
    }
    if victims.contains(&"PostgreSQL") {
        stage.restart(Server::Postgres);
    }
    let mut again = None;
    if victims.contains(&"node") {
        assert!(!dying.ended().await.success());
        again = Some(stage.node().await);
    }
    crowd.orders_after(Instant::now(), ORDERS_AFTER).await;
    let answers = crowd.go_home().await;
    only(&answers, &[What::Unavailable, What::Nothing, in_progress()]);
    stage.settle(&answers).await;
    drop(again);
    let count = |wanted: fn(&What) -> bool| answers.iter().filter(|one| wanted(&one.what)).count();
    eprintln!(
        "figures: kill round, seed {seed}: {victims:?} killed; {} orders, {} named on asking again, \
         {} x 503; over in {} ms",
        count(|what| matches!(what, What::Ordered(_))),
        count(|what| matches!(what, What::AlreadyBought(_))),
        count(|what| *what == What::Unavailable),
        fault.elapsed().as_millis(),
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_in_the_middle_of_group_commits_takes_no_order_along() {
    for strategy in [Strategy::GroupCommit, Strategy::GroupCommitUnlocked] {
        let seed = rand::random();
        round(seed, strategy).await;
    }
}

/// `make test-kill-rounds`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn fifty_rounds_of_killing_in_the_middle_of_group_commits() {
    for seed in 1..=50 {
        round(seed, Strategy::GroupCommit).await;
    }
}

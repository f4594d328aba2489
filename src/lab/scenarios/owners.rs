//! One owner, more than one hold; one who waits.

use anyhow::Context;
use futures_util::future::select_all;
use tokio::time::timeout;

use crate::lab::Stage;
use crate::lab::faults::{Fault, Proxy};
use crate::lab::stage::{Buyer, PATIENCE, Stop};
use crate::ladder::{Answer, Lock, Point};

/// The holder calls code that takes the same lock.
pub(super) async fn nested(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (wanted, on_the_way) = (stage.voucher(1).await?, stage.voucher(1).await?);
    let node = stage.node().await?;
    let a = stage.enter("A", node, Buyer::new(0, wanted).and(on_the_way)).await?;
    if stage.finish(a).await? == Stop::Waits {
        stage.broken("A waits for a lock that A itself holds");
    } else if stage.orders(on_the_way).await? == 0 {
        stage.broken("A is turned away by the lock that A itself holds");
    } else if stage.orders(wanted).await? == 0 {
        stage.broken("A cannot go on after the purchase made on the way");
    }
    Ok(())
}

/// The release falls between a waiter's miss and its subscription.
pub(super) async fn lost_wakeup(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let first = stage.node().await?;
    let mut proxies = Vec::new();
    for url in &mut stage.servers.redis_urls {
        let proxy = Proxy::start(url).await?;
        *url = proxy.url().to_owned();
        proxies.push(proxy);
    }
    let second = stage.node().await?;
    let a = stage.enter("A", first, Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    stage.must_reach(a, &[Point::OrdersCounted]).await?;
    stage.must_reach(b, &[Point::Missed]).await?;
    if stage.rung.lock != Lock::ZooKeeper {
        // The connection on which B is to hear of the release is a new one, held up on its way.
        for proxy in &proxies {
            proxy.break_by(Fault::Hold);
        }
        stage.set_out(b).await?;
        let held = proxies.iter().map(|proxy| Box::pin(proxy.until_held()));
        let held = timeout(PATIENCE, select_all(held)).await;
        held.context("B never asked to be told of the release")?;
        stage.say("B has missed the lock, and its subscription is held up");
    }
    stage.finish(a).await?;
    for proxy in &proxies {
        proxy.break_by(Fault::None);
    }
    stage.finish_all(&[b]).await?;
    match stage.answer(b) {
        Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)) => {}
        _ => stage.broken("B slept through the release"),
    }
    Ok(())
}

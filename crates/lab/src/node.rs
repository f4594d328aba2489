//! A node: the process in which attempts are made, `seckill lab node` (hidden). It acts as the
//! lab tells it to, or serves HTTP; in both cases it ends when its standard input does.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use anyhow::Context;
use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::node_process::{Act, Attempt, FEW_PLACES, NodePlan, NodeReport, NodeRequest, Task};
use super::told::Failure;
use ladder::{
    self, Awaited, Design, Detail, Director, Point, Purchase, Resources, RungError, Work,
};
use seckill::model::{UserId, VoucherId};

/// Runs the subcommand on this process' standard input and output.
///
/// # Errors
/// When the plan cannot be read or carried out.
pub async fn run() -> anyhow::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let plan = lines.next_line().await?.context("no plan on standard input")?;
    let plan: NodePlan = serde_json::from_str(&plan).context("the plan cannot be read")?;
    let rung = ladder::find(&plan.rung)?;
    let NodePlan { database_url, redis_urls, zookeeper, key_prefix, clock_ahead, .. } = plan;
    let resources = Resources::open(&database_url, &redis_urls, zookeeper, &key_prefix)?;
    if plan.http {
        let ended = async move { while lines.next_line().await.is_ok_and(|it| it.is_some()) {} };
        let ready = |address: SocketAddr| say(&NodeReport::Ready(Some(address.to_string())));
        return super::serve::node(rung, resources, ready, ended).await;
    }
    let resources = Resources { queue: FEW_PLACES, clock_ahead, ..resources };
    let design: Arc<dyn Design> = (rung.build)(resources).await?.into();
    if plan.consumer {
        design.start_consumer().await?;
    }
    say(&NodeReport::Ready(None));
    act(design, lines).await
}

/// Writes a line at once. A lab that does not read any more has ended, and so does the node.
fn say(said: &NodeReport) {
    let mut stdout = std::io::stdout().lock();
    let line = serde_json::to_string(said).unwrap_or_default();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}

async fn act(design: Arc<dyn Design>, mut lines: Lines<BufReader<Stdin>>) -> anyhow::Result<()> {
    let mut actors: HashMap<String, Arc<ActorDirector>> = HashMap::new();
    let mut attempts = JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let known = |name: &String| actors.get(name).context("there is no such actor");
        match serde_json::from_str(&line).context("an order cannot be read")? {
            NodeRequest::Enter(name, task) => {
                let actor = Arc::new(ActorDirector::new(name.clone()));
                actors.insert(name, Arc::clone(&actor));
                let design = Arc::clone(&design);
                attempts.spawn(async move {
                    actor.until_told_to_go().await;
                    let director = Arc::clone(&actor) as Arc<dyn Director>;
                    let act = task.carry_out(&*design, director).await;
                    actor.did(act.unwrap_or_else(|error| Act::Failed(Failure::from(&error))));
                });
            }
            NodeRequest::Go(name) => known(&name)?.go.add_permits(1),
            NodeRequest::Look(name) => known(&name)?.look(),
            NodeRequest::BreakOff => {
                attempts.shutdown().await;
                actors.clear();
                say(&NodeReport::BrokenOff);
            }
        }
    }
    Ok(())
}

impl Task {
    async fn carry_out(
        self,
        design: &dyn Design,
        director: Arc<dyn Director>,
    ) -> anyhow::Result<Act> {
        let work = Work { director: Some(Arc::clone(&director)) };
        Ok(match self {
            Self::Buy(attempt) => match design.buy(&purchase(&attempt, director)?).await {
                Err(RungError::LockLost) => Act::LostLock,
                bought => Act::Done(bought?),
            },
            Self::Ask(attempt) => match design.status(&purchase(&attempt, director)?).await? {
                Some(answer) => Act::Done(answer),
                None => Act::NeverHeardOf,
            },
            Self::Work => Act::Worked(design.write_next(&work).await?),
            Self::Pay(notice) => Act::Worked(design.pay(&notice, &work).await?),
            Self::Restock(voucher, more) => {
                Act::Worked(design.restock(VoucherId::try_from(voucher)?, more, &work).await?)
            }
            Self::Expire(voucher) => {
                Act::Worked(design.expire(VoucherId::try_from(voucher)?, &work).await?)
            }
        })
    }
}

fn purchase(attempt: &Attempt, director: Arc<dyn Director>) -> anyhow::Result<Purchase> {
    Ok(Purchase {
        user: UserId::try_from(attempt.user)?,
        voucher: VoucherId::try_from(attempt.voucher)?,
        lease: attempt.lease,
        patience: attempt.patience,
        also: attempt.also.map(VoucherId::try_from).transpose()?,
        request: attempt.request.map_or_else(Uuid::new_v4, Uuid::from_u128),
        director: Some(director),
    })
}

/// One attempt, on the lab's string.
struct ActorDirector {
    name: String,
    go: Semaphore,
    /// Whether the lab wants to hear that the attempt waits.
    asked: AtomicBool,
    /// Has the attempt look again for what it waits for.
    waker: Mutex<Option<Waker>>,
}

impl ActorDirector {
    fn new(name: String) -> Self {
        Self { name, go: Semaphore::new(0), asked: AtomicBool::new(true), waker: Mutex::default() }
    }

    fn look(&self) {
        // Before the waker is taken: an attempt that leaves one afterwards finds the question.
        self.asked.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker().take() {
            waker.wake();
        }
    }

    fn waker(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        // A panic elsewhere leaves one waker whole.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until_told_to_go(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.go.acquire().await {
            permit.forget();
        }
    }

    fn did(&self, act: Act) {
        say(&NodeReport::Acted(self.name.clone(), act));
    }
}

#[async_trait]
impl Director for ActorDirector {
    async fn at(&self, point: Point, detail: Detail) {
        self.did(Act::At(point, detail));
        self.until_told_to_go().await;
        self.asked.store(true, Ordering::SeqCst);
    }

    fn waits(&self, what: Awaited, waker: &Waker) {
        *self.waker() = Some(waker.clone());
        if self.asked.swap(false, Ordering::SeqCst) {
            self.did(Act::Waits(what));
        }
    }
}

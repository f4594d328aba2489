//! A node: the process in which attempts are made, `seckill lab node` (hidden). It acts as the
//! lab tells it to, or serves HTTP; in both cases it ends when its standard input does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::protocol::{Act, Attempt, NodePlan, NodeReport, NodeRequest, say};
use super::told::Failure;
use ladder::{
    self, Awaited, Design, Detail, Director, PaymentNotice, Point, Purchase, RungError, Work,
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
    if plan.http {
        return super::serve::node(&plan, async move {
            while lines.next_line().await.is_ok_and(|line| line.is_some()) {}
        })
        .await;
    }
    let design: Arc<dyn Design> = (rung.build)(plan.resources()?).await?.into();
    if plan.consumer {
        design.start_consumer().await?;
    }
    say(&NodeReport::Ready(None));
    act(design, lines).await
}

async fn act(design: Arc<dyn Design>, mut lines: Lines<BufReader<Stdin>>) -> anyhow::Result<()> {
    let mut actors: HashMap<String, Arc<ActorDirector>> = HashMap::new();
    let mut attempts = JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let (name, task) = match serde_json::from_str(&line).context("an order cannot be read")? {
            NodeRequest::Enter(attempt) => (attempt.actor.clone(), Task::Buy(attempt)),
            NodeRequest::Ask(attempt) => (attempt.actor.clone(), Task::Ask(attempt)),
            NodeRequest::Work(name) => (name, Task::Work),
            NodeRequest::Pay(name, notice) => (name, Task::Pay(notice)),
            NodeRequest::Expire(name, voucher) => (name, Task::Expire(voucher)),
            NodeRequest::Restock(name, voucher, more) => (name, Task::Restock(voucher, more)),
            NodeRequest::Go(name) => match actors.get(&name) {
                Some(actor) => {
                    actor.go.add_permits(1);
                    continue;
                }
                None => bail!("there is no actor {name:?}"),
            },
            NodeRequest::Look(name) => match actors.get(&name) {
                Some(actor) => {
                    actor.look();
                    continue;
                }
                None => bail!("there is no actor {name:?}"),
            },
            NodeRequest::BreakOff => {
                attempts.shutdown().await;
                actors.clear();
                say(&NodeReport::BrokenOff);
                continue;
            }
        };
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
    Ok(())
}

/// What an actor is here for.
enum Task {
    Buy(Attempt),
    Ask(Attempt),
    Work,
    Pay(PaymentNotice),
    Expire(i64),
    Restock(i64, i32),
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
        lease: Duration::from_millis(attempt.lease_ms),
        patience: Duration::from_millis(attempt.patience_ms),
        also: attempt.also.map(VoucherId::try_from).transpose()?,
        request: attempt.request.parse()?,
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
        say(&NodeReport::Acted { actor: self.name.clone(), act });
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

//! The rush: everybody at once. One barrier releases all connections, and each of them sends one
//! request after another. A request is sent at most once, and has exactly one [outcome](super::outcome).
//! With [`RushPlan::arrivals`] each comes at a time of its own instead.
//!
//! **What a latency is.** A request's clock starts when the request is *due*, and stops when its answer
//! has been read to the end or given up. The first request of a connection is due when the barrier opens,
//! at one instant for all connections: so the generator's own delay counts. Each further request is due
//! when the one before it ended: so reopening the connection counts, too.
//!
//! With fewer connections than requests this is a *closed* load: a slow server is asked less often, and
//! the wait for a free connection is not in the figures. A stampede in the full sense needs as many
//! connections as there are requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::{HeaderMap, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::LoadError;
use super::answer_rules::AnswerReader;
pub use super::assignment::PlannedRequest;
use super::assignment::{self, Assignment};
use super::connection::{Connection, Exchange};
pub use super::examples::{AnswerExample, EXAMPLE_BYTES};
use super::examples::{Examples, beginning};
use super::open_files::check_connections;
use super::outcome::{CodeAndOrder, NO_ANSWER, NOT_SENT};
use super::place::Answer;
pub use super::progress::{BuyerChanges, BuyerStates, Progress};
use super::target::{Target, TargetNode, WholeRequest};

/// The most requests of one rush. They and their answers are held in memory.
pub const MAX_REQUESTS: usize = 1_000_000;

/// The longest time-out. Longer ones are cut to it, because an instant so far away may not exist.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Connections that are opened at once: fewer than any usual listen backlog.
pub(super) const OPENING_AT_ONCE: usize = 64;

/// Tries to open a connection before the clock starts.
pub(super) const OPEN_TRIES: u32 = 6;

/// Tries to open a connection again once the clock runs.
const REOPEN_TRIES: u32 = 3;

/// How often one request may find its connection closed before it was written.
const UNSENT_TRIES: u32 = 3;

/// Why an attempt has no outcome of which a part was sent.
const NOT_ALL_SENT: &str = "one of its requests could not be sent";

/// What to send.
#[derive(Clone)]
pub struct RushPlan {
    /// How attempts are written, and how their answers are read.
    pub target: Target,
    /// The servers.
    pub nodes: Vec<TargetNode>,
    /// The attempts, at most [`MAX_REQUESTS`], in any order.
    pub requests: Vec<PlannedRequest>,
    /// The most connections to open, over all nodes.
    pub max_connections: usize,
    /// How long to wait for an answer after its request was due; at most a day.
    pub answer_timeout: Duration,
    /// How long the whole rush may take, with the opening of the connections; at most a day. When it is
    /// up, requests under way become [`NO_ANSWER`] and the others [`NOT_SENT`].
    pub total_timeout: Duration,
    /// From the opening of the barrier: when this is over, no further attempt begins. `None`: all are made.
    pub begin_within: Option<Duration>,
    /// How long after the opening of the barrier each request is due, at most a day. Empty: all are due at once.
    pub arrivals: Vec<Duration>,
    /// Decides the order of the buyers.
    pub seed: u64,
    /// Whether a rush goes on whose connections cannot all be opened before the barrier. Each request of such
    /// a connection tries again, and is [`NOT_SENT`] in the end. Otherwise the rush fails.
    pub may_lack_connections: bool,
    /// Whether the beginning of each answer's body is kept.
    pub keeps_bodies: bool,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAnswer {
    /// Index into [`RushPlan::requests`].
    pub request: usize,
    /// [`PlannedRequest::buyer`].
    pub buyer: u64,
    /// The outcome's code: see the module.
    pub outcome: Cow<'static, str>,
    /// The order, where the answer names one. A yes without it is an acknowledgement all the same.
    pub order_id: Option<String>,
    /// See the module. Without an answer it is the time until the request was given up.
    pub latency: Duration,
    /// From the opening of the barrier until the attempt's first request was about to be sent.
    pub asked: Duration,
    /// From the opening of the barrier until it was answered or given up.
    pub at: Duration,
    /// The beginning of the last answer's body, where it is kept.
    pub said: Option<Arc<str>>,
}

impl RequestAnswer {
    /// Whether an answer came.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.outcome != NO_ANSWER && self.outcome != NOT_SENT
    }
}

/// The end of a rush.
#[derive(Debug)]
pub struct RushResult {
    /// One for every request that began, in the order of [`RushPlan::requests`].
    pub answers: Vec<RequestAnswer>,
    /// The opening of the barrier.
    pub start: Instant,
    /// Connections that the requests were spread over.
    pub connections: usize,
    /// From the opening of the barrier until the last request was answered or given up.
    pub elapsed: Duration,
    /// Some of the answers that are not known, and why some did not come.
    pub examples: Vec<AnswerExample>,
}

/// Sends the plan and waits for all its answers. Dropping the future ends the rush.
///
/// # Errors
///
/// A [`LoadError`] when the plan cannot be carried out. Then nothing has been sent, but for
/// [`LoadError::WorkerDied`]. What servers answer is no error.
pub async fn run(plan: RushPlan, progress: Arc<Progress>) -> Result<RushResult, LoadError> {
    let deadline = Instant::now() + plan.total_timeout.min(MAX_TIMEOUT);
    check(&plan)?;
    let assignments =
        assignment::assign(&plan.requests, plan.nodes.len(), plan.max_connections, plan.seed)?;
    let connections = assignments.len();
    check_connections(connections)?;

    let answer_timeout = plan.answer_timeout.min(MAX_TIMEOUT);
    let examples = Examples::default();
    let rush = Arc::new(RushShared { plan, answer_timeout, deadline, progress, examples });
    let workers: Vec<RushWorker> = stream::iter(assignments)
        .map(|assignment| RushWorker::open(Arc::clone(&rush), assignment))
        .buffered(OPENING_AT_ONCE)
        .try_collect()
        .await?;

    let (barrier, closed) = watch::channel(None);
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(worker.work(closed.clone()));
    }
    let start = Instant::now();
    barrier.send_replace(Some(start));

    let mut answers = Vec::with_capacity(rush.plan.requests.len());
    let mut end = start;
    while let Some(worked) = tasks.join_next().await {
        let (of_worker, ended) = worked.map_err(LoadError::WorkerDied)?;
        answers.extend(of_worker);
        end = end.max(ended);
    }
    answers.sort_unstable_by_key(|answer| answer.request);
    let examples = rush.examples.take();
    Ok(RushResult { answers, start, connections, elapsed: end - start, examples })
}

/// Refuses what could not be sent later, before any connection is open.
fn check(plan: &RushPlan) -> Result<(), LoadError> {
    let (requests, nodes) = (plan.requests.len(), plan.nodes.len());
    if requests == 0 || nodes == 0 {
        return Err(LoadError::NothingToSend { requests, nodes });
    }
    if requests > MAX_REQUESTS {
        return Err(LoadError::TooManyRequests { requests, max: MAX_REQUESTS });
    }
    for (index, request) in plan.requests.iter().enumerate() {
        let node = request.node;
        let address = plan.nodes.get(node);
        let address = address.ok_or(LoadError::NoSuchNode { request: index, node, nodes })?;
        plan.target
            .first(request, address)
            .map_err(|source| LoadError::MalformedRequest { request: index, source })?;
    }
    Ok(())
}

/// What all workers share.
struct RushShared {
    plan: RushPlan,
    answer_timeout: Duration,
    deadline: Instant,
    progress: Arc<Progress>,
    examples: Examples,
}

/// Sends one assignment over its connection.
struct RushWorker {
    rush: Arc<RushShared>,
    node: TargetNode,
    requests: Vec<usize>,
    /// `None`: the last one cannot be used any more.
    connection: Option<Connection>,
}

impl RushWorker {
    async fn open(rush: Arc<RushShared>, assignment: Assignment) -> Result<Self, LoadError> {
        let node = rush.plan.nodes[assignment.node].clone();
        let opened = Connection::open(&node, OPEN_TRIES, rush.deadline).await;
        let connection = match opened {
            Ok(connection) => Some(connection),
            Err(_) if rush.plan.may_lack_connections => None,
            Err(source) => return Err(LoadError::Connect { node: node.address, source }),
        };
        Ok(Self { rush, node, requests: assignment.requests, connection })
    }

    /// Waits for the barrier, sends the requests one after another, and returns their
    /// answers and the instant of the last.
    async fn work(
        mut self,
        mut barrier: watch::Receiver<Option<Instant>>,
    ) -> (Vec<RequestAnswer>, Instant) {
        let opened = barrier.wait_for(Option::is_some).await.ok().and_then(|start| *start);
        // A barrier that is gone and never opened means that the rush was dropped, and this task with it.
        let start = opened.unwrap_or_else(Instant::now);
        let mut due = start;
        let mut answers = Vec::with_capacity(self.requests.len());
        let begin_within = self.rush.plan.begin_within;
        let mut requests = std::mem::take(&mut self.requests);
        let rush = Arc::clone(&self.rush);
        let arrival = |request: usize| rush.plan.arrivals.get(request).copied();
        // Where all come at once, they stay as they were dealt.
        requests.sort_by_key(|request| arrival(*request));
        for request in requests {
            if let Some(after) = arrival(request) {
                due = due.max(start + after.min(MAX_TIMEOUT));
                sleep_until(due.min(self.rush.deadline)).await;
            }
            if begin_within.is_some_and(|limit| due - start >= limit) {
                break;
            }
            let asked = start.elapsed();
            let ((outcome, order_id), said) = self.send(request, due).await;
            let ended = Instant::now();
            let buyer = self.rush.plan.requests[request].buyer;
            let (latency, at) = (ended - due, ended - start);
            self.rush.progress.add(buyer, &outcome);
            let answer =
                RequestAnswer { request, buyer, outcome, order_id, latency, asked, at, said };
            answers.push(answer);
            due = ended;
        }
        (answers, due)
    }

    /// Makes one attempt: each of its requests at most once, and the next one with what the one before gave.
    async fn send(&mut self, request: usize, due: Instant) -> (CodeAndOrder, Option<Arc<str>>) {
        let rush = Arc::clone(&self.rush);
        let (planned, target) = (&rush.plan.requests[request], &rush.plan.target);
        let until = rush.deadline.min(due + rush.answer_timeout);
        let mut taken = planned.taken();
        for (number, step) in target.before.iter().enumerate() {
            let next = step.target.write(&step.path, &planned.values(&taken), &self.node);
            let (status, headers, body) = match self.exchange(request, next, until).await {
                Ok(answered) => answered,
                // What came before may have had an effect.
                Err((code, _)) if number > 0 && code == NOT_SENT => {
                    return (rush.examples.no_answer(request, NOT_ALL_SENT), None);
                }
                Err(nothing) => return (nothing, None),
            };
            let mut answer = Answer::new(status, &headers, body.as_deref());
            if !step.take(&mut answer, &mut taken) {
                return rush.read(request, &step.target.answers, answer, body.is_some());
            }
        }
        let last = target.write(&planned.path, &planned.values(&taken), &self.node);
        match self.exchange(request, last, until).await {
            Ok((status, headers, body)) => {
                let answer = Answer::new(status, &headers, body.as_deref());
                rush.read(request, &target.answers, answer, body.is_some())
            }
            Err((code, _)) if !target.before.is_empty() && code == NOT_SENT => {
                (rush.examples.no_answer(request, NOT_ALL_SENT), None)
            }
            Err(nothing) => (nothing, None),
        }
    }

    /// Sends one request, at most once. Without an answer it is the outcome that says so.
    async fn exchange(
        &mut self,
        request: usize,
        written: Result<WholeRequest, hyper::http::Error>,
        until: Instant,
    ) -> Result<(StatusCode, HeaderMap, Option<Bytes>), CodeAndOrder> {
        let examples = &self.rush.examples;
        let Ok(mut http_request) = written else { return Err((NOT_SENT.into(), None)) };
        for _ in 0..UNSENT_TRIES {
            // A time-out that is over polls its future once all the same, and would send.
            if Instant::now() >= until {
                break;
            }
            // The connection goes back only after a whole answer. In any other state it is dropped here.
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => match Connection::open(&self.node, REOPEN_TRIES, until).await {
                    Ok(connection) => connection,
                    Err(why) => {
                        examples.not_connected(request, &why);
                        break;
                    }
                },
            };
            match timeout_at(until, connection.exchange(http_request)).await {
                Ok(Exchange::Answered { status, headers, body }) => {
                    if body.is_some() {
                        self.connection = Some(connection);
                    }
                    return Ok((status, headers, body));
                }
                Ok(Exchange::Unsent(unsent)) => http_request = *unsent,
                Ok(Exchange::Lost) => {
                    return Err(examples.no_answer(request, "the connection broke"));
                }
                Err(_) => return Err(examples.no_answer(request, "no answer came in time")),
            }
        }
        Err((NOT_SENT.into(), None))
    }
}

impl RushShared {
    /// The outcome of an answer that is the end of its attempt, and the beginning of its body where it is kept.
    fn read(
        &self,
        request: usize,
        answers: &AnswerReader,
        mut answer: Answer<'_>,
        is_whole: bool,
    ) -> (CodeAndOrder, Option<Arc<str>>) {
        let PlannedRequest { user, token, .. } = &self.plan.requests[request];
        let token = (user != token).then_some(&**token);
        let (read, is_known) = answers.read(&mut answer);
        let body = is_whole.then(|| answer.bytes());
        if !is_known {
            self.examples.unknown(request, &read.0, answer.status, body, token);
        }
        let said = self.plan.keeps_bodies.then(|| beginning(answer.bytes(), token).into());
        (read, said)
    }
}

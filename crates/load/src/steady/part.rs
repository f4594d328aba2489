//! One thread of a steady load: its connections, the requests that are due, and their outcomes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::codes::{CodeIndex, Codes, NO_ANSWER_INDEX, NOT_SENT_INDEX};
use super::plan::{Arrival, SteadyPlan};
use super::schedule::ArrivalSchedule;
use super::sum::Counted;
use super::tally::{Tally, Timing};
use crate::connection::{CONNECT_TIMEOUT, Connection, EmptyRequest, Exchange, FIRST_CONNECT_PAUSE};
use crate::rush::Progress;

/// How often requests that have waited for too long are given up, and the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The longest pause between two attempts to connect again.
const MAX_CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// What all threads share.
pub(super) struct LoadShared {
    pub(super) plan: SteadyPlan,
    /// Where all threads wait until all connections are ready.
    pub(super) ready: Barrier,
    /// Times are counted from here.
    pub(super) start: OnceLock<Instant>,
    /// Number of the next request.
    pub(super) next: AtomicU64,
    /// A request was due for which there is no pair.
    pub(super) exhausted: AtomicBool,
    /// The caller has dropped the load.
    pub(super) abandoned: AtomicBool,
    pub(super) progress: Arc<Progress>,
}

impl LoadShared {
    /// Since the start.
    fn elapsed(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }
}

/// A request that is due.
#[derive(Clone, Copy)]
struct Waiting {
    due: Duration,
    k: u64,
}

/// One thread's part of the load. Its tasks, one a connection, run on this thread alone.
struct LoadThread {
    job: Arc<LoadShared>,
    /// When the last request becomes due.
    until: Duration,
    is_closed: bool,
    hosts: Vec<HeaderValue>,
    answer_timeout: Duration,
    connection_timeout: Duration,
    /// Requests that are due, in the order in which they became so. Bounded by what becomes due
    /// within the answer's time-out.
    waiting: RefCell<VecDeque<Waiting>>,
    /// One request is waiting. Wakes the connection that has been idle for longest.
    arrived: Notify,
    under_way: Cell<usize>,
    /// There are no pairs for further requests.
    is_dry: Cell<bool>,
    tally: RefCell<Tally>,
    codes: RefCell<Codes>,
}

/// Carries out part `part` of `parts` on this thread, over these connections (each with the index
/// of its node), until all requests have their outcome.
pub(super) fn run(
    runtime: &Runtime,
    job: &Arc<LoadShared>,
    (part, parts): (usize, usize),
    streams: Vec<(usize, std::net::TcpStream)>,
) -> std::io::Result<Counted> {
    let (local, connections) = (LocalSet::new(), streams.len());
    let state = Rc::new(LoadThread::new(job));
    let opened = local.block_on(runtime, async {
        for (node, stream) in streams {
            let connection = Connection::over(TcpStream::from_std(stream)?).await?;
            tokio::task::spawn_local(Rc::clone(&state).serve(node, connection));
        }
        Ok(())
    });
    // All threads come here, also one that cannot go on.
    job.ready.wait();
    opened.map_err(|error: std::io::Error| error)?;
    let schedule = match &job.plan.arrival {
        Arrival::Closed { .. } => None,
        Arrival::Open { phases } => {
            let seed = job.plan.seed.wrapping_add(part as u64);
            Some(ArrivalSchedule::new(phases, 1.0 / parts as f64, seed).peekable())
        }
    };
    local.block_on(runtime, state.drive(connections, schedule));
    // Ends the connections' tasks.
    drop(local);
    let tally = state.tally.replace(Tally::new(job.plan.spans()));
    Ok(tally.finish(&state.codes.borrow()))
}

impl LoadThread {
    fn new(job: &Arc<LoadShared>) -> Self {
        let plan = &job.plan;
        let spans = plan.spans();
        let host = |node: &SocketAddr| HeaderValue::from_str(&node.to_string());
        Self {
            until: spans.last().map_or(Duration::ZERO, |span| span.end),
            is_closed: matches!(plan.arrival, Arrival::Closed { .. }),
            hosts: plan.nodes.iter().flat_map(host).collect(),
            answer_timeout: Duration::from_millis(plan.answer_timeout_ms),
            connection_timeout: plan.connection_timeout(),
            waiting: RefCell::default(),
            arrived: Notify::new(),
            under_way: Cell::new(0),
            is_dry: Cell::new(false),
            tally: RefCell::new(Tally::new(spans)),
            codes: RefCell::default(),
            job: Arc::clone(job),
        }
    }

    /// Makes requests due, gives up those that have waited for too long, and returns when nothing
    /// is left to do. A load that has no more pairs, or that the caller has dropped, ends sooner.
    async fn drive(&self, connections: usize, mut schedule: Option<Peekable<ArrivalSchedule>>) {
        if self.is_closed {
            (0..connections).for_each(|_| self.arrive(Duration::ZERO));
        }
        let mut next_look = Duration::ZERO;
        loop {
            let now = self.job.elapsed();
            let mut next_due = None;
            if let Some(schedule) = &mut schedule {
                while let Some(due) = schedule.next_if(|due| *due <= now && !self.is_dry.get()) {
                    self.arrive(due);
                }
                next_due = schedule.peek().copied();
            }
            if now >= next_look {
                next_look = now + LOOK_EVERY;
                self.give_up_late(now);
                self.job.progress.reach(now.as_millis() as u64);
                let is_over = self.is_dry.get() || (now >= self.until && next_due.is_none());
                let is_idle = self.waiting.borrow().is_empty() && self.under_way.get() == 0;
                if is_over && is_idle || self.job.abandoned.load(Ordering::Relaxed) {
                    return;
                }
            }
            let wake =
                next_due.filter(|_| !self.is_dry.get()).map_or(next_look, |due| due.min(next_look));
            sleep(wake.saturating_sub(self.job.elapsed())).await;
        }
    }

    /// A request is due.
    fn arrive(&self, due: Duration) {
        let k = self.job.next.fetch_add(1, Ordering::Relaxed);
        if self.job.plan.pairs().is_some_and(|pairs| k >= pairs) {
            self.job.exhausted.store(true, Ordering::Relaxed);
            self.is_dry.set(true);
            return;
        }
        self.tally.borrow_mut().due(due);
        self.waiting.borrow_mut().push_back(Waiting { due, k });
        self.arrived.notify_one();
    }

    fn give_up_late(&self, now: Duration) {
        let is_late = |waiting: &mut Waiting| now >= waiting.due + self.connection_timeout;
        loop {
            let late = self.waiting.borrow_mut().pop_front_if(is_late);
            let Some(late) = late else { return };
            self.conclude(Timing { due: late.due, sent: None }, NOT_SENT_INDEX);
        }
    }

    /// The next request that is due, for a connection that is idle.
    async fn next(&self) -> Waiting {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            let Some(next) = next else {
                self.arrived.notified().await;
                continue;
            };
            if self.job.elapsed() < next.due + self.answer_timeout {
                return next;
            }
            self.conclude(Timing { due: next.due, sent: None }, NOT_SENT_INDEX);
        }
    }

    /// One connection: sends one request after another, for as long as the load lasts.
    async fn serve(self: Rc<Self>, node: usize, connection: Connection) {
        let mut connection = Some(connection);
        loop {
            let mut open = match connection.take() {
                Some(connection) => connection,
                None => self.reopen(self.job.plan.nodes[node]).await,
            };
            let waiting = self.next().await;
            let Some(request) = self.request(node, waiting.k) else { return };
            self.under_way.set(self.under_way.get() + 1);
            let sent = self.job.elapsed();
            let until = tokio::time::Instant::now()
                + (waiting.due + self.answer_timeout).saturating_sub(sent);
            let timing = Timing { due: waiting.due, sent: Some(sent) };
            let exchange = timeout_at(until, open.exchange(request)).await;
            self.under_way.set(self.under_way.get() - 1);
            match exchange {
                Ok(Exchange::Answered { status, is_problem, retry_after, body }) => {
                    let body = body.as_deref();
                    let code = self.codes.borrow_mut().of(status.as_u16(), is_problem, body);
                    connection = body.is_some().then_some(open);
                    self.conclude(timing, code);
                    if status == StatusCode::SERVICE_UNAVAILABLE && !self.is_closed {
                        sleep(retry_after.unwrap_or_default()).await;
                    }
                }
                // Not a byte was written: it goes first over another connection.
                Ok(Exchange::Unsent(_)) => {
                    self.waiting.borrow_mut().push_front(waiting);
                    self.arrived.notify_one();
                }
                Ok(Exchange::Lost) | Err(_) => self.conclude(timing, NO_ANSWER_INDEX),
            }
        }
    }

    /// Opens a connection again: at once, and then after growing pauses.
    async fn reopen(&self, node: SocketAddr) -> Connection {
        let mut pause = FIRST_CONNECT_PAUSE;
        loop {
            let now = tokio::time::Instant::now();
            if let Ok(connection) = Connection::open(node, 1, now + CONNECT_TIMEOUT).await {
                return connection;
            }
            sleep_until(now + pause).await;
            pause = (pause * 2).min(MAX_CONNECT_PAUSE);
        }
    }

    /// The plan has been checked: paths and tokens can be written.
    fn request(&self, node: usize, k: u64) -> Option<EmptyRequest> {
        let (path, token) = self.job.plan.pair(k);
        let request = Request::post(path)
            .header(HOST, self.hosts.get(node)?)
            .header(CONTENT_LENGTH, 0)
            .header(AUTHORIZATION, format!("Bearer {token}"));
        request.body(Empty::new()).ok()
    }

    /// A request that was due has its outcome. In a closed load it brings the next one.
    fn conclude(&self, timing: Timing, code: CodeIndex) {
        let now = self.job.elapsed();
        self.tally.borrow_mut().outcome(timing, now, code);
        if self.is_closed && now < self.until && !self.is_dry.get() {
            self.arrive(now);
        }
    }
}

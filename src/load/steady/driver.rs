//! One thread of a steady load: its connections, the requests that are due, and nothing that
//! blocks but the waiting for both.

use std::collections::VecDeque;
use std::io;
use std::iter::Peekable;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Poll, Token};

use super::alarm::Alarm;
use super::answer::{Codes, NO_ANSWER_INDEX, NOT_SENT_INDEX};
use super::link::{Happened, Link};
use super::plan::{Arrival, SteadyPlan};
use super::schedule::Schedule;
use super::sum::Counted;
use super::tally::{Tally, Timing};
use crate::load::connection::MAX_BODY_BYTES;
use crate::load::rush::Progress;

/// How often the connections are looked at for what makes no event: time-outs, attempts to
/// connect again, the end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The generator does not wake up for an arrival sooner than this after it has fallen asleep: a
/// waking costs more than a request. An arrival is sent late by at most this, and that counts
/// into its latency as any other wait does.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);

/// Events that are taken at a time.
const MAX_EVENTS: usize = 1_024;

const ALARM: Token = Token(usize::MAX - 1);

/// What all threads share.
pub(super) struct Job {
    pub(super) plan: SteadyPlan,
    /// Times are counted from here: when the first thread sets out, with every connection ready.
    pub(super) start: OnceLock<Instant>,
    /// Number of the next request.
    pub(super) next: AtomicU64,
    /// A request was due for which there is no pair.
    pub(super) exhausted: AtomicBool,
    /// Nobody wants to know any more.
    pub(super) abandoned: AtomicBool,
    pub(super) progress: Arc<Progress>,
}

impl Job {
    /// Since the start.
    fn elapsed(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }
}

/// Where further requests come from.
enum Source {
    /// Every outcome before this time brings another request.
    Outcomes { until: Duration },
    /// The clock brings them.
    Clock { schedule: Box<Peekable<Schedule>>, until: Duration },
    /// There are none any more.
    Dry,
}

/// A request that is due.
#[derive(Clone, Copy)]
struct Waiting {
    due: Duration,
    k: u64,
}

/// One thread's part.
pub(super) struct Driver {
    job: Arc<Job>,
    poll: Poll,
    alarm: Alarm,
    links: Vec<Link>,
    /// Idle links, the one first that has been idle for longest, so that all take part.
    idle: VecDeque<usize>,
    source: Source,
    /// Requests that are due, in the order in which they became so. Bounded by what becomes
    /// due within the answer's time-out.
    line: VecDeque<Waiting>,
    asked: usize,
    tally: Tally,
    codes: Codes,
    /// `host: …` for each node.
    hosts: Vec<String>,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    answer_timeout: Duration,
    connection_timeout: Duration,
    next_look: Duration,
}

impl Driver {
    /// Part `part` of `parts`, with these connections and the index of the node of each.
    pub(super) fn new(
        job: Arc<Job>,
        (part, parts): (usize, usize),
        streams: Vec<(usize, TcpStream)>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let open =
            |(index, (node, stream))| Link::open(node, Token(index), stream, poll.registry());
        let links = streams.into_iter().enumerate().map(open).collect::<io::Result<Vec<_>>>()?;
        let spans = job.plan.spans();
        let until = spans.last().map_or(Duration::ZERO, |span| span.end);
        let source = match &job.plan.arrival {
            Arrival::Closed { .. } => Source::Outcomes { until },
            Arrival::Open { phases } => {
                let share = 1.0 / parts as f64;
                let seed = job.plan.seed.wrapping_add(part as u64);
                let schedule = Schedule::new(phases, share, seed).peekable();
                Source::Clock { schedule: Box::new(schedule), until }
            }
        };
        Ok(Self {
            poll,
            alarm,
            idle: (0..links.len()).collect(),
            links,
            source,
            line: VecDeque::new(),
            asked: 0,
            tally: Tally::new(spans),
            codes: Codes::default(),
            hosts: job.plan.nodes.iter().map(|node| format!("host: {node}\r\n")).collect(),
            request: Vec::new(),
            buffer: vec![0; MAX_BODY_BYTES].into(),
            answer_timeout: Duration::from_millis(job.plan.answer_timeout_ms),
            connection_timeout: job.plan.connection_timeout(),
            next_look: Duration::ZERO,
            job,
        })
    }

    /// Sends what becomes due until nothing more does and all has its outcome, or until the
    /// load is abandoned.
    pub(super) fn run(mut self) -> io::Result<Counted> {
        let mut events = Events::with_capacity(MAX_EVENTS);
        if matches!(self.source, Source::Outcomes { .. }) {
            (0..self.links.len()).for_each(|_| self.arrive(Duration::ZERO));
        }
        loop {
            let now = self.job.elapsed();
            self.take_due(now);
            self.send(now);
            if now >= self.next_look {
                self.look_round(now);
                if self.is_over(now) || self.job.abandoned.load(Ordering::Relaxed) {
                    return Ok(self.tally.finish(&self.codes));
                }
                continue;
            }
            let patience = self.patience(now)?;
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if event.token() != ALARM {
                    let is_ending = event.is_read_closed() || event.is_error();
                    self.on_ready(event.token().0, is_ending);
                }
            }
        }
    }

    /// How long nothing needs to be done but what events ask for.
    fn patience(&mut self, now: Duration) -> io::Result<Duration> {
        let until_look = self.next_look.saturating_sub(now);
        let Source::Clock { schedule, .. } = &mut self.source else { return Ok(until_look) };
        let Some(&due) = schedule.peek() else { return Ok(until_look) };
        // Without an idle connection it can wait: when it is due is known in any case.
        if self.idle.is_empty() || due >= self.next_look {
            return Ok(until_look);
        }
        self.alarm.set(due.saturating_sub(now).max(SHORTEST_PAUSE))
    }

    /// Takes from the clock what is due by `now`.
    fn take_due(&mut self, now: Duration) {
        while let Source::Clock { schedule, .. } = &mut self.source {
            match schedule.next_if(|&due| due <= now) {
                Some(due) => self.arrive(due),
                None => break,
            }
        }
    }

    /// A request is due.
    fn arrive(&mut self, due: Duration) {
        let k = self.job.next.fetch_add(1, Ordering::Relaxed);
        if self.job.plan.pairs().is_some_and(|pairs| k >= pairs) {
            self.job.exhausted.store(true, Ordering::Relaxed);
            self.source = Source::Dry;
            return;
        }
        self.tally.due(due);
        self.line.push_back(Waiting { due, k });
    }

    /// Sends those who wait over what is idle, and gives up those who have waited too long. Who
    /// is sent late because the generator was, is sent.
    fn send(&mut self, now: Duration) {
        while let Some(&waiting) = self.line.front() {
            let has_waited_for = |timeout| now >= waiting.due + timeout;
            let idle =
                if has_waited_for(self.answer_timeout) { None } else { self.idle.pop_front() };
            if let Some(link) = idle {
                if self.ask(link, waiting) {
                    self.line.pop_front();
                    self.asked += 1;
                }
            } else if has_waited_for(self.connection_timeout) {
                self.line.pop_front();
                let timing = Timing { due: waiting.due, sent: None };
                self.conclude(timing, now, NOT_SENT_INDEX);
            } else {
                break;
            }
        }
    }

    /// Whether the request has left.
    fn ask(&mut self, index: usize, waiting: Waiting) -> bool {
        let link = &mut self.links[index];
        let (path, token) = self.job.plan.pair(waiting.k);
        self.request.clear();
        for part in ["POST ", path, " HTTP/1.1\r\n", &self.hosts[link.node]] {
            self.request.extend_from_slice(part.as_bytes());
        }
        for part in ["content-length: 0\r\nauthorization: Bearer ", token, "\r\n\r\n"] {
            self.request.extend_from_slice(part.as_bytes());
        }
        let now = self.job.elapsed();
        let timing = Timing { due: waiting.due, sent: Some(now) };
        let has_left = link.ask(&self.request, timing);
        if !has_left {
            link.reopen(now, self.poll.registry());
        }
        has_left
    }

    fn on_ready(&mut self, index: usize, is_ending: bool) {
        let Some(link) = self.links.get_mut(index) else { return };
        let was_idle = link.is_idle();
        let happened = link.on_ready(is_ending, &mut self.buffer, &mut self.codes);
        match happened {
            Happened::Nothing => {}
            Happened::Connected => self.idle.push_back(index),
            Happened::Answered { timing, code, is_kept } => {
                let now = self.job.elapsed();
                self.asked -= 1;
                if is_kept {
                    self.idle.push_back(index);
                } else {
                    link.reopen(now, self.poll.registry());
                }
                self.conclude(timing, now, code);
            }
            Happened::Broke(timing) => {
                let now = self.job.elapsed();
                link.reopen(now, self.poll.registry());
                if was_idle {
                    self.idle.retain(|&idle| idle != index);
                }
                if let Some(timing) = timing {
                    self.asked -= 1;
                    self.conclude(timing, now, NO_ANSWER_INDEX);
                }
            }
        }
    }

    /// A request that was due has its outcome.
    fn conclude(&mut self, timing: Timing, now: Duration, code: usize) {
        self.tally.outcome(timing, now, code);
        if let Source::Outcomes { until } = self.source
            && now < until
        {
            self.arrive(now);
        }
    }

    /// Everything that time alone brings about.
    fn look_round(&mut self, now: Duration) {
        self.next_look = now + LOOK_EVERY;
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            link.look(now, self.poll.registry());
            if let Some(timing) = link.asked()
                && now >= timing.due + self.answer_timeout
            {
                link.reopen(now, self.poll.registry());
                self.asked -= 1;
                self.conclude(timing, now, NO_ANSWER_INDEX);
            }
        }
        self.job.progress.reach(now.as_millis() as u64);
    }

    /// Whether nothing is left to do. A load for which nobody comes any more lasts as long as
    /// it was to.
    fn is_over(&mut self, now: Duration) -> bool {
        let is_dry = match &mut self.source {
            Source::Dry => true,
            Source::Outcomes { until } => now >= *until,
            Source::Clock { schedule, until } => now >= *until && schedule.peek().is_none(),
        };
        is_dry && self.line.is_empty() && self.asked == 0
    }
}

//! Sends the crowds of a check, and lets the buyers ask later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use load::LoadError;
use load::latency::Latencies;
use load::outcome::{
    ACCEPTED, NO_ANSWER, NOT_SENT, ORDER_IN_PROGRESS, UNAVAILABLE, unknown_status,
};
use load::rush::{self, AnswerExample, PlannedRequest, Progress, RushPlan, RushResult};
use program::{ConfigError, progress};
use tokio::time::{Instant, interval, sleep};

use super::buyers::CheckBuyer;
use super::own_cpu::OwnCpu;
use super::sale_record::{Decided, HeardAnswer, SaleRecord, Undecided};
use super::target::{CheckRequest, CheckTarget};

/// How long all of one crowd may take.
const CROWD_WITHIN: Duration = Duration::from_secs(600);
/// Between two rounds of asking later: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Between two pictures of the progress.
const TICK: Duration = Duration::from_millis(100);
/// What a buyer may hear when asking later, and must ask again. So does one who hears what fits no rule.
const ASK_AGAIN: [&str; 5] = [ACCEPTED, NO_ANSWER, NOT_SENT, UNAVAILABLE, ORDER_IN_PROGRESS];

/// Sends the crowds, and counts what they hear.
pub struct CrowdSender<'a> {
    /// The target.
    pub target: &'a CheckTarget,
    /// The buyers.
    pub buyers: &'a [CheckBuyer],
    /// The most connections.
    pub connections: usize,
    /// Decides the order of the buyers.
    pub seed: u64,
    /// How long one answer may take.
    pub answer_timeout: Duration,
    /// The buyer who is next where not all come.
    pub next: usize,
    /// Vouchers that were put on sale.
    pub put_on_sale: usize,
    /// The crowd whose progress was shown last.
    pub shown: Option<&'static str>,
    /// The one of which nothing is judged.
    pub warm: Option<String>,
    /// What was counted so far.
    pub totals: CrowdTotals,
}

/// What was counted over all crowds.
#[derive(Default)]
pub struct CrowdTotals {
    /// Attempts by outcome, as they were first answered.
    pub outcomes: BTreeMap<String, u64>,
    /// Examples of what no rule knows, each with the crowd's name.
    pub examples: Vec<(&'static str, AnswerExample)>,
    /// Of all answers.
    pub latencies: Latencies,
    /// The last rush.
    pub rush: Option<RushFigures>,
    /// Why not all crowds were sent, if so.
    pub cut_short: Option<String>,
}

/// The rates of a rush.
#[derive(Debug, Clone)]
pub struct RushFigures {
    /// Attempts.
    pub attempts: u64,
    /// Attempts that were answered.
    pub answered: u64,
    /// Connections.
    pub connections: usize,
    /// From the first attempt to the last answer.
    pub elapsed: Duration,
    /// The instant of the last answer, or somewhat later.
    pub ended: Instant,
    /// What this program used meanwhile.
    pub own_cpu: Option<OwnCpu>,
    /// What the books say of it, where they were read before and after.
    pub booked: Option<BookedRush>,
}

/// A rush in the books.
#[derive(Debug, Clone, Copy)]
pub struct BookedRush {
    /// Its orders.
    pub orders: i64,
    /// From the last answer to the last order.
    pub behind: Duration,
}

/// Buyers before all crowds.
const WARM_UP: usize = 20;
/// The name of the crowd whose rates are told.
pub const RUSH: &str = "rush";
/// The name of the crowds that want one voucher.
pub const LAST_VOUCHER: &str = "last voucher";

impl CrowdSender<'_> {
    /// Sends a crowd: each of the `attempts` is a buyer and how often it tries, all of it at once. What they
    /// hear is added to `sale`.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn send(
        &mut self,
        sale: &mut SaleRecord,
        crowd: &'static str,
        attempts: &[(usize, usize)],
    ) -> Result<(), ConfigError> {
        let nodes = self.target.nodes.len();
        let aimed = attempts.iter().flat_map(|&(buyer, attempts)| {
            (0..attempts).map(move |k| Undecided { buyer, node: (buyer + k) % nodes, order: None })
        });
        let plan = self.plan(&self.target.purchase, &sale.voucher, aimed.collect());
        if plan.requests.is_empty() {
            return Ok(());
        }
        sleep(self.target.pause).await;
        let bar = match self.shown.replace(crowd) == Some(crowd) {
            // They are many, and each is over at once.
            true => ProgressBar::hidden(),
            false => progress::of_attempts(crowd, plan.requests.len() as u64),
        };
        let aims: Vec<usize> = plan.requests.iter().map(|request| request.node).collect();
        let cpu = OwnCpu::begin();
        let result = run(plan, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        let result = result?;
        let own_cpu = cpu.and_then(|cpu| cpu.spent(result.elapsed));
        self.count(crowd, &result, own_cpu);
        let heard = result.answers.into_iter().map(|answer| HeardAnswer {
            buyer: answer.buyer as usize,
            user: Arc::clone(&self.buyers[answer.buyer as usize].user),
            crowd,
            node: aims[answer.request],
            outcome: answer.outcome,
            order: answer.order_id.map(Arc::from),
            at: answer.at,
            is_later: false,
            asked: result.start + answer.asked,
            answered: result.start + answer.at,
            said: answer.said,
        });
        let mut heard: Vec<_> = heard.collect();
        heard.sort_by_key(|answer| answer.at);
        sale.heard.extend(heard);
        self.ask_later(sale).await
    }

    /// The buyers whose turn it is where not all come: those who came before come again last.
    pub fn turn(&mut self, count: usize) -> Vec<usize> {
        let all = self.buyers.len();
        let turn = (0..count.min(all)).map(|k| (self.next + k) % all).collect();
        self.next = (self.next + count) % all;
        turn
    }

    fn plan(&self, request: &CheckRequest, voucher: &str, aimed: Vec<Undecided>) -> RushPlan {
        let request = request.for_voucher(voucher);
        let planned = |Undecided { buyer, node, order }: Undecided| {
            let CheckBuyer { user, token } = &self.buyers[buyer];
            PlannedRequest {
                node,
                path: request.path.clone(),
                token: Arc::clone(token),
                user: Arc::clone(user),
                buyer: buyer as u64,
                order,
            }
        };
        RushPlan {
            nodes: self.target.servers(),
            requests: aimed.into_iter().map(planned).collect(),
            target: request.target,
            max_connections: self.connections,
            answer_timeout: self.answer_timeout,
            total_timeout: CROWD_WITHIN,
            begin_within: None,
            arrivals: Vec::new(),
            seed: self.seed,
            // The first crowd shows whether anybody is there.
            may_lack_connections: !self.totals.outcomes.is_empty(),
            keeps_bodies: true,
        }
    }

    /// Some buyers buy a voucher of which nothing is judged: a target that has just started is slow.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn warm_up(&mut self) -> Result<(), ConfigError> {
        let Some(voucher) = &self.warm else { return Ok(()) };
        let nodes = self.target.nodes.len();
        let last = self.buyers.len().saturating_sub(WARM_UP)..self.buyers.len();
        let aimed = last.map(|buyer| Undecided { buyer, node: buyer % nodes, order: None });
        let plan = self.plan(&self.target.purchase, voucher, aimed.collect());
        run(plan, |_| {}).await.map(|_| ())
    }

    fn count(&mut self, crowd: &'static str, result: &RushResult, own_cpu: Option<OwnCpu>) {
        let totals = &mut self.totals;
        let mut answered = 0;
        for answer in &result.answers {
            *totals.outcomes.entry(answer.outcome.to_string()).or_default() += 1;
            if answer.is_answered() {
                answered += 1;
                totals.latencies.record(answer.latency);
            }
        }
        self.add_examples(crowd, &result.examples);
        if crowd == RUSH {
            self.totals.rush = Some(RushFigures {
                attempts: result.answers.len() as u64,
                answered,
                connections: result.connections,
                elapsed: result.elapsed,
                ended: Instant::now(),
                own_cpu,
                booked: None,
            });
        }
    }

    fn add_examples(&mut self, crowd: &'static str, examples: &[AnswerExample]) {
        for example in examples {
            let kept = &mut self.totals.examples;
            if !kept.iter().any(|(_, other)| other.outcome == example.outcome) {
                kept.push((crowd, example.clone()));
            }
        }
    }

    /// Lets the buyers who heard `accepted` ask, until they hear something else or the time is up.
    async fn ask_later(&mut self, sale: &mut SaleRecord) -> Result<(), ConfigError> {
        let Some(later) = &self.target.later else { return Ok(()) };
        sale.by_order = later.by_order;
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let undecided = sale.undecided();
            if undecided.is_empty() || begun.elapsed() >= later.within {
                return Ok(());
            }
            let asked = undecided.clone();
            let plan = self.plan(&later.request, &sale.voucher, undecided);
            let result = run(plan, |_| {}).await?;
            self.add_examples("asking later", &result.examples);
            let mut decided = Decided::new();
            for answer in result.answers {
                let (outcome, buyer) = (answer.outcome.as_ref(), answer.buyer as usize);
                let unknown = unknown_status(outcome);
                match unknown.is_some_and(|status| !(500..=599).contains(&status)) {
                    true => sale.unfit.insert(buyer),
                    false => sale.unfit.remove(&buyer),
                };
                if unknown.is_none() && !ASK_AGAIN.contains(&outcome) {
                    let question = (buyer, asked[answer.request].order.clone());
                    let order = answer.order_id.map(Arc::from);
                    decided.insert(question, (answer.outcome, order));
                }
            }
            sale.decide(&decided, begun.elapsed());
            if !sale.undecided().is_empty() {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Sends a plan, and tells how far it is.
async fn run(plan: RushPlan, told: impl Fn(u64)) -> Result<RushResult, ConfigError> {
    let progress = Arc::new(Progress::default());
    let rush = rush::run(plan, Arc::clone(&progress));
    let mut rush = std::pin::pin!(rush);
    let mut tick = interval(TICK);
    loop {
        tokio::select! {
            result = &mut rush => return result.map_err(unsendable),
            _ = tick.tick() => told(progress.done()),
        }
    }
}

/// Why nothing could be sent, in one sentence.
fn unsendable(error: LoadError) -> ConfigError {
    ConfigError(format!("{:#}", anyhow::Error::from(error)))
}

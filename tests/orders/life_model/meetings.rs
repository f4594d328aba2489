//! Steps that meet. The first is stopped between two of its statements, the others run until they are done or wait for what
//! it holds, and then it goes on. What comes of it must be what the model says of one of their sequences.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use futures_util::future::join_all;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::shop::held_rows::waiting;
use testkit::shop::world::World;
use testkit::wait::eventually;

use super::case::Case;
use super::in_database::InDatabase;
use super::model::{Buyer, Shop, Step};
use super::runs::{self, Driver, Life};
use crate::orders::races::patient;

/// Races that are played at once.
const LANES: usize = 4;
/// How often a race is played again that a busy machine ended.
const TRIES: usize = 5;

/// What was before, the steps that meet, and where the first one stops.
#[derive(Debug, Clone)]
pub struct Meeting {
    pub before: Life,
    pub steps: Vec<Step>,
    pub stop: (&'static str, usize),
}

impl Step {
    /// The functions between whose statements it can be stopped.
    pub const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Buy(..) | Self::BuyAgain(_) => &["sell", "place_orders"],
            Self::Open(_) => &["open_payment"],
            Self::Took(..) => {
                &["apply_payment", "judge_payment", "payment_outcome", "write_payment"]
            }
            Self::Failed(..) => &["fail_payment"],
            Self::GaveBack(..) => &["return_payment", "follow_returns"],
            Self::CameAgain(..) => &["undo_return", "follow_undone"],
            Self::Cancel(..) => &["cancel_order"],
            Self::Redeem(_) => &["redeem_order"],
            Self::Refund(_) => &["refund_order"],
            Self::Settle(_) => &["settle_refund"],
            Self::Expire => &["expire_orders"],
            Self::Answered(..) => &["finish_refund"],
            Self::NotPaid(..) => &["gateway_answered"],
            Self::Enter(..) | Self::Leave(..) => &["enter_line"],
            Self::Serve => &["draw_entries", "offer_to_line"],
            _ => &[],
        }
    }
}

/// Puts a stop before each statement of the functions. A session stops at the point that its setting names, for as long as
/// somebody holds the advisory lock. Returns how many points each function has.
async fn put_stops(pool: &PgPool) -> BTreeMap<String, usize> {
    let stop = "create function stop_at(point text) returns boolean language plpgsql as $$
        begin
            if point = current_setting('test.stop', true) then
                perform pg_advisory_xact_lock_shared(1);
            end if;
            return true;
        end $$";
    sqlx::raw_sql(stop).execute(pool).await.unwrap();
    let sources: Vec<(String, String)> = sqlx::query_as(
        "select proname::text, pg_get_functiondef(oid) from pg_proc
         where pronamespace = 'public'::regnamespace and prosrc like '%begin%' and proname <> 'stop_at'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let begins = ["update", "select", "insert", "perform", "if", "return", "for"];
    let mut points = BTreeMap::new();
    for (name, source) in sources {
        let (mut stopped, mut count, mut before) = (String::new(), 0, "");
        for line in source.lines() {
            // Of the outermost block.
            let word = line.strip_prefix("    ").and_then(|line| line.split([' ', ';']).next());
            let is_after_another = before.ends_with(';') || before == "begin";
            if is_after_another && word.is_some_and(|word| begins.contains(&word)) {
                // An expression: `perform` would set `found`, which the next line may ask for.
                stopped += &format!("    if stop_at('{name} {count}') then end if;\n");
                count += 1;
            }
            stopped += &format!("{line}\n");
            if !line.trim().is_empty() && !line.trim_start().starts_with("--") {
                before = line;
            }
        }
        sqlx::raw_sql(AssertSqlSafe(stopped)).execute(pool).await.unwrap();
        points.insert(name, count);
    }
    points
}

/// A database of its own, in which one race after the other is played.
pub struct Lane {
    world: World,
    pub points: BTreeMap<String, usize>,
    holder: PgConnection,
    sessions: Vec<InDatabase>,
}

impl Lane {
    pub async fn new() -> Self {
        let world = runs::world().await;
        patient(&world).await;
        let points = put_stops(world.database.pool()).await;
        let holder = PgConnection::connect(&world.database_url).await.unwrap();
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(InDatabase::new(&world).await);
        }
        Self { world, points, holder, sessions }
    }

    /// Whether the first step came to its stop.
    ///
    /// # Errors
    /// What came of it that is no sequence of the steps.
    pub async fn meet(&mut self, meeting: &Meeting) -> Result<bool, String> {
        for _ in 0..TRIES {
            if let Some(came) = self.try_to_meet(meeting).await? {
                return Ok(came);
            }
        }
        Err(format!("{TRIES} times a busy machine ended {meeting:?}"))
    }

    /// `None`: the machine is busy, and nobody knows what became of a step.
    async fn try_to_meet(&mut self, meeting: &Meeting) -> Result<Option<bool>, String> {
        let Self { world, holder, sessions, .. } = self;
        let case = Case::new(world, meeting.before.terms).await;
        let mut shop = Shop::new(meeting.before.terms);
        for step in &meeting.before.steps {
            let step = step.of_one_of(shop.orders.len());
            if step != Step::Serve && shop.take(step, &Default::default()) == "nothing" {
                continue;
            }
            if sessions[1].take(&case, step, "").await.is_none() {
                return Ok(None);
            }
            if step == Step::Serve {
                shop.take(step, &case.lots().await);
            }
            if case.orders().len() < shop.orders.len() {
                case.read().await;
            }
        }
        let steps: Vec<Step> =
            meeting.steps.iter().map(|it| it.of_one_of(shop.orders.len())).collect();
        // One that names an order where there is none.
        if steps.iter().any(|step| shop.clone().take(*step, &Default::default()) == "nothing") {
            return Ok(Some(false));
        }
        let Some(said) = at_once(&case, holder, sessions, &steps, meeting.stop).await else {
            return Ok(Some(false));
        };
        let Some(said) = said.into_iter().collect::<Option<Vec<String>>>() else { return Ok(None) };
        let is = case.read().await;
        let all = outcomes(&shop, &steps, &said, &case.lots().await);
        let Some((_, after)) = all.iter().find(|it| (&it.0, &it.1) == (&said, &is)) else {
            let all: String = all.iter().map(|it| format!("\n  or        {it:?}")).collect();
            return Err(format!("{meeting:?}\n  is        {said:?} {is:?}{all}"));
        };
        for sale in (0..2).filter(|sale| is.orders.iter().any(|order| order.sale == *sale)) {
            if let Some(wrong) = case.wrong_audit(after, sale, false).await {
                return Err(format!("{meeting:?}: the audit says {wrong}"));
            }
        }
        Ok(Some(true))
    }
}

/// What the steps answer that meet where the first one stops; `None`: it does not come there.
async fn at_once(
    case: &Case<'_>,
    holder: &mut PgConnection,
    sessions: &mut [InDatabase],
    steps: &[Step],
    (function, point): (&str, usize),
) -> Option<Vec<Option<String>>> {
    sqlx::raw_sql("select pg_advisory_lock(1)").execute(&mut *holder).await.unwrap();
    let set = format!("set test.stop = '{function} {point}'");
    sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut sessions[0].session).await.unwrap();
    let done: Vec<Cell<bool>> = steps.iter().map(|_| Cell::new(false)).collect();
    let has_come = Cell::new(true);
    // How many of the first steps still run: each of them waits.
    let wait = async |count: usize| {
        eventually("the steps that met are done, or wait", async || {
            let running = done[..count].iter().filter(|is_done| !is_done.get()).count();
            running == 0 || waiting(case.pool()).await == running as i64
        })
        .await;
    };
    let run = async |at: usize, session: &mut InDatabase| {
        if at > 0 {
            wait(at).await;
        }
        if at == 1 && done[0].get() {
            has_come.set(false);
        }
        let said = if has_come.get() { session.take(case, steps[at], "").await } else { None };
        done[at].set(true);
        said
    };
    let running =
        join_all(sessions.iter_mut().take(steps.len()).enumerate().map(|(at, it)| run(at, it)));
    let go_on = async {
        wait(steps.len()).await;
        sqlx::raw_sql("select pg_advisory_unlock(1)").execute(&mut *holder).await.unwrap();
    };
    let (said, ()) = tokio::join!(running, go_on);
    sqlx::raw_sql("set test.stop = ''").execute(&mut sessions[0].session).await.unwrap();
    has_come.get().then_some(said)
}

/// What the model says that may come of the steps: the answers, and the shop. Steps that answer nothing are not in `said`.
fn outcomes(
    shop: &Shop,
    steps: &[Step],
    said: &[String],
    lots: &[Vec<Buyer>; 2],
) -> Vec<(Vec<String>, Shop)> {
    // A draw and its offers are two transactions: another step may come between them.
    let parts = steps.iter().enumerate().flat_map(|(at, step)| match step {
        Step::Serve => vec![(at, Step::Draw), (at, Step::Offer)],
        step => vec![(at, *step)],
    });
    // `expire_orders` skips an order that another session has locked.
    let locked = steps.iter().filter_map(|step| step.clone().order().copied());
    let expire: Vec<Step> = [Step::Expire].into_iter().chain(locked.map(Step::ExpireBut)).collect();
    let mut all = Vec::new();
    for sequence in sequences(parts) {
        for expire in &expire {
            let (mut after, mut answers) = (shop.clone(), said.to_vec());
            for (at, step) in &sequence {
                let step = if *step == Step::Expire { *expire } else { *step };
                answers[*at] = after.take(step, lots);
            }
            all.push((answers, after.sorted()));
        }
    }
    all
}

/// All sequences of these parts of steps. Those of one step keep their order.
fn sequences(parts: impl Iterator<Item = (usize, Step)>) -> Vec<Vec<(usize, Step)>> {
    let mut all = vec![Vec::new()];
    for part in parts {
        let longer = |it: Vec<(usize, Step)>| {
            let first = it.iter().position(|other| other.0 == part.0).map_or(0, |at| at + 1);
            (first..=it.len()).map(move |at| [&it[..at], &[part], &it[at..]].concat())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Plays all meetings. Returns how many came about.
pub async fn play(meetings: Vec<Meeting>, lanes: &mut [Lane]) -> usize {
    let (to_play, played) = (RefCell::new(meetings), Cell::new(0));
    join_all(lanes.iter_mut().map(async |lane| {
        loop {
            let Some(meeting) = to_play.borrow_mut().pop() else { return };
            let has_come = lane.meet(&meeting).await.unwrap_or_else(|why| panic!("{why}"));
            played.set(played.get() + usize::from(has_come));
        }
    }))
    .await;
    played.get()
}

pub async fn lanes() -> Vec<Lane> {
    join_all((0..LANES).map(async |_| Lane::new().await)).await
}

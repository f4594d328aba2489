//! Each pair of steps of one order, at each point between two statements: the first step is stopped there, the second
//! one runs until it is done or waits for a row, and then the first goes on. So no order of their statements is left
//! out in which two steps can meet. Afterwards the books hold, and each step that somebody was told of has one row in
//! the log.

#[allow(unused_imports)]
use crate::worlds::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use seckill::purchase::audit::Violation;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::orders::races::patient;
use testkit::shop::world::{PRICE, World};
use testkit::wait::eventually;

/// A step of the order 1 of a voucher, whose buyer is user 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Pay,
    PayAgain,
    Fail,
    Open,
    Cancel,
    Expire,
    Redeem,
    Refund,
    Finish,
    Settle,
    GatewayRefund,
    ChargeBack,
    BuyAgain,
    /// Of user 2.
    Enter,
    Leave,
    Serve,
}

impl Step {
    /// The calls that the server makes, each a transaction, until one says something.
    fn calls(self, voucher: i64) -> Vec<String> {
        let money = |function: &str, transaction: &str, more: &str| {
            format!("select {function}({voucher}, 1, 1, '{transaction}-{voucher}', {PRICE}{more})")
        };
        let paid = |transaction: &str| {
            ["apply_payment", "judge_payment"]
                .map(|function| money(function, transaction, ""))
                .into()
        };
        let done = |call: &str| {
            format!("select case when done then 'done' else 'refused: ' || {STATE} end from {call}")
        };
        vec![match self {
            Self::Pay => return paid("first"),
            Self::PayAgain => return paid("second"),
            Self::Fail => format!("select fail_payment({voucher}, 1, 1)"),
            Self::Open => {
                format!("select order_status::text from open_payment({voucher}, 1, 1, 4)")
            }
            Self::Cancel => done(&format!("cancel_order({voucher}, 1, 1::smallint, 1)")),
            Self::Expire => format!("select expire_orders({voucher}, array[1])::text"),
            Self::Redeem => done(&format!("redeem_order({voucher}, 1, 9)")),
            Self::Refund => done(&format!("refund_order({voucher}, 1, 9)")),
            Self::Finish => format!("select finish_refund({voucher}, 1, 1)"),
            Self::Settle => done(&format!("settle_refund({voucher}, 1, 9)")),
            Self::GatewayRefund => money("return_payment", "first", ", 2::smallint"),
            Self::ChargeBack => money("return_payment", "first", ", 3::smallint"),
            Self::Enter => {
                format!(
                    "select outcome from enter_line({voucher}, array[2], array[gen_random_uuid()])"
                )
            }
            Self::Leave => {
                format!("select outcome from enter_line({voucher}, array[2], array[null::uuid])")
            }
            Self::Serve => format!("select serve_line({voucher}, array[3])"),
            Self::BuyAgain => {
                let sell = format!("sell({voucher}, array[2], array[1], array[sale_time()])");
                format!("select coalesce((select reason from {sell}), 'nothing')")
            }
        }]
    }

    /// The function that is stopped between its statements.
    const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Pay | Self::PayAgain => &["apply_payment", "judge_payment"],
            Self::Fail => &["fail_payment"],
            Self::Open => &["open_payment"],
            Self::Cancel => &["cancel_order"],
            Self::Expire => &["expire_orders"],
            Self::Redeem => &["redeem_order"],
            Self::Refund => &["refund_order"],
            Self::Finish => &["finish_refund"],
            Self::Settle => &["settle_refund"],
            Self::GatewayRefund | Self::ChargeBack => &["return_payment"],
            Self::BuyAgain => &["sell"],
            Self::Enter | Self::Leave => &["enter_line"],
            Self::Serve => &["serve_line"],
        }
    }

    /// The rows of the log that `told` claims: the name of the step.
    fn claims(self, told: &str) -> Option<&'static str> {
        match (self, told) {
            (Self::Pay | Self::PayAgain, "applied") => Some("paid"),
            (Self::Pay | Self::PayAgain, "revived") => Some("revived"),
            (Self::Cancel, "done") | (Self::Expire, "1") => Some("cancelled"),
            (Self::Redeem, "done") => Some("redeemed"),
            (Self::Refund, "done") => Some("refund_begun"),
            (Self::Finish, "done") => Some("refunded"),
            (Self::Settle, "done") => Some("settled_outside"),
            _ => None,
        }
    }
}

/// Where the order is when the two steps meet, how it came there, and which steps meet there.
const SCENES: [(&str, &[Step], &[Step]); 7] = {
    use Step::*;
    [
        ("unpaid", &[Open], &[Pay, PayAgain, Open, Cancel, Expire, Redeem, GatewayRefund]),
        ("expired", &[Open, Expire], &[Pay, PayAgain, Fail, BuyAgain, GatewayRefund]),
        ("paid", &[Open, Pay], &[PayAgain, Redeem, Refund, Cancel, GatewayRefund, ChargeBack]),
        ("refunding", &[Open, Pay, Refund], &[Finish, Settle, Redeem, GatewayRefund, ChargeBack]),
        ("sold out", &[], &[Enter, Cancel, Expire, Pay, Serve]),
        ("in line", &[Enter, Expire], &[Enter, Leave, Serve, BuyAgain, Pay]),
        ("used", &[Open, Pay, Redeem], &[Redeem, Refund, GatewayRefund, ChargeBack]),
    ]
};

/// The state of an order, as a word.
const STATE: &str =
    "(array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded'])[status]";

/// All that comes of some pairs, whichever step is first: what each is told, and then the order's state, the stock, and
/// the refunds that wait.
const OUTCOMES: [(&str, &str); 10] = [
    ("unpaid", "Cancel refused: paid, Pay applied: paid, 1 left, 0 to give back"),
    ("unpaid", "Cancel done, Pay order_cancelled: cancelled, 2 left, 1 to give back"),
    ("unpaid", "Cancel done, Expire 0: cancelled, 2 left, 0 to give back"),
    ("unpaid", "Cancel refused: cancelled, Expire 1: cancelled, 2 left, 0 to give back"),
    ("unpaid", "Pay applied, Pay repeated: paid, 1 left, 0 to give back"),
    ("unpaid", "Pay applied, PayAgain order_paid: paid, 1 left, 1 to give back"),
    ("unpaid", "Pay order_paid, PayAgain applied: paid, 1 left, 1 to give back"),
    ("paid", "Redeem refused: refunding, Refund done: refunding, 1 left, 1 to give back"),
    ("paid", "Redeem done, Refund refused: used: used, 1 left, 0 to give back"),
    ("refunding", "Finish done, Finish repeated: refunded, 2 left, 0 to give back"),
];

/// Races that are played at once.
const AT_ONCE: i32 = 4;

/// Puts a stop before each statement of the step functions. A session stops at the point that its setting names, for
/// as long as somebody holds the advisory lock.
async fn put_stops(pool: &PgPool) -> BTreeMap<String, usize> {
    let stop = "create function stop_at(point text) returns boolean language plpgsql as $$
        begin
            if point = current_setting('test.stop', true) then
                perform pg_advisory_xact_lock_shared(current_setting('test.lock')::bigint);
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
    let mut points = BTreeMap::new();
    for (name, source) in sources {
        let (mut stopped, mut count, mut before) = (String::new(), 0, "");
        for line in source.lines() {
            let begins = ["update", "select", "insert", "perform", "if", "return", "for"];
            let word = line.trim_start().split([' ', ';']).next().unwrap_or_default();
            let is_outermost = line.starts_with("    ") && !line.starts_with("     ");
            if is_outermost
                && begins.contains(&word)
                && (before.ends_with(';') || before == "begin")
            {
                // An expression: `perform` would set `found`, which the next line may ask for.
                stopped += &format!("    if stop_at('{name} {count}') then end if;\n");
                count += 1;
            }
            stopped += line;
            stopped.push('\n');
            if !line.trim().is_empty() && !line.trim_start().starts_with("--") {
                before = line;
            }
        }
        sqlx::raw_sql(AssertSqlSafe(stopped)).execute(pool).await.unwrap();
        points.insert(name, count);
    }
    points
}

/// A voucher whose order 1 took the steps `before`. It is overdue, so that it may expire where it is unpaid.
async fn set_up(world: &World, connection: &mut PgConnection, stock: i32, before: &[Step]) -> i64 {
    let voucher = world.voucher_with_line(stock).await.id.get();
    let pay_by = async |connection: &mut PgConnection, time: &str| {
        let set =
            format!("update orders set pay_by = sale_time() {time} where voucher_id = {voucher}");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(connection).await.unwrap();
    };
    let buy = format!("select * from sell({voucher}, array[1], array[1], array[sale_time()])");
    sqlx::raw_sql(AssertSqlSafe(buy)).execute(&mut *connection).await.unwrap();
    for step in before {
        pay_by(connection, if *step == Step::Expire { "" } else { "+ interval '1 hour'" }).await;
        told(connection, *step, voucher).await;
    }
    pay_by(connection, "").await;
    voucher
}

async fn told(connection: &mut PgConnection, step: Step, voucher: i64) -> String {
    for call in step.calls(voucher) {
        let said: Option<String> = sqlx::query_scalar(AssertSqlSafe(call))
            .fetch_one(&mut *connection)
            .await
            .unwrap_or_else(|error| panic!("{step:?} of voucher {voucher}: {error}"));
        if let Some(said) = said {
            return said;
        }
    }
    panic!("{step:?} of voucher {voucher} says nothing")
}

/// What the order is then, with what the two were told, whichever was first.
async fn outcome(pool: &PgPool, voucher: i64, steps: [Step; 2], said: &[String; 2]) -> String {
    let mut told = [0, 1].map(|at| format!("{:?} {}", steps[at], said[at]));
    told.sort_unstable();
    let books = format!(
        "select format('%s, %s left, %s to give back', {STATE}, stock,
                       (select count(*) from refunds where refunds.voucher_id = $1 and status = 1))
         from orders join seckill_vouchers using (voucher_id) where voucher_id = $1 and id = 1"
    );
    let books = sqlx::query_scalar(AssertSqlSafe(books)).bind(voucher).fetch_one(pool);
    let books: String = books.await.unwrap();
    format!("{}: {books}", told.join(", "))
}

async fn steps_of(pool: &PgPool, voucher: i64) -> Vec<String> {
    sqlx::query_scalar(
        "select step from order_steps where voucher_id = $1 and order_id = 1 order by number",
    )
    .bind(voucher)
    .fetch_all(pool)
    .await
    .unwrap()
}

/// Three sessions: the first step's, the second one's, and that of whoever holds the stop.
struct Race<'a> {
    world: &'a World,
    holder: PgConnection,
    first: PgConnection,
    second: PgConnection,
    pids: [i32; 2],
}

impl<'a> Race<'a> {
    async fn new(world: &'a World, number: i32) -> Self {
        let (mut sessions, mut pids) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut session = PgConnection::connect(&world.database_url).await.unwrap();
            let set = format!("set test.lock = {number}");
            sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut session).await.unwrap();
            let pid = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session);
            pids.push(pid.await.unwrap());
            sessions.push(session);
        }
        let [holder, first, second] = sessions.try_into().unwrap_or_else(|_| unreachable!());
        Self { world, holder, first, second, pids: [pids[1], pids[2]] }
    }

    /// Stops `first` at `point`, lets `second` run, and then `first`. What both were told; `None` where `first` does
    /// not come to the point.
    async fn run(
        &mut self,
        voucher: i64,
        [first, second]: [Step; 2],
        point: &str,
    ) -> Option<[String; 2]> {
        let Self { world, holder, first: first_session, second: second_session, pids } = self;
        let waits = async |pid: i32, kind: &str| {
            let wait =
                "select wait_event_type = 'Lock' and (wait_event = 'advisory') = ($2 = 'stop')
                        from pg_stat_activity where pid = $1";
            let wait = sqlx::query_scalar::<_, Option<bool>>(wait).bind(pid).bind(kind);
            wait.fetch_one(world.database.pool()).await.unwrap().unwrap_or(false)
        };
        let hold = "select pg_advisory_lock(current_setting('test.lock')::bigint)";
        let let_go =
            sqlx::raw_sql("select pg_advisory_unlock(current_setting('test.lock')::bigint)");
        sqlx::raw_sql(hold).execute(&mut *holder).await.unwrap();
        let set = format!("set test.stop = '{point}'");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut *first_session).await.unwrap();

        let (first_is_done, second_is_done) = (Cell::new(false), Cell::new(false));
        let run_first = async {
            let said = told(first_session, first, voucher).await;
            first_is_done.set(true);
            said
        };
        let run_second = async {
            eventually("the first step stops or ends", async || {
                first_is_done.get() || waits(pids[0], "stop").await
            })
            .await;
            let said = if first_is_done.get() {
                None
            } else {
                Some(told(second_session, second, voucher).await)
            };
            second_is_done.set(true);
            said
        };
        let go_on = async {
            eventually("the second step ends or waits for a row", async || {
                second_is_done.get() || waits(pids[1], "row").await
            })
            .await;
            let_go.execute(holder).await.unwrap();
        };
        let (first_said, second_said, ()) = tokio::join!(run_first, run_second, go_on);
        Some([first_said, second_said?])
    }
}

/// The two steps of an outcome.
fn pair(outcome: &str) -> Vec<&str> {
    outcome.splitn(3, ", ").take(2).map(|told| told.split(' ').next().unwrap()).collect()
}

/// The steps in the log and those that the two claim to have done, alike where each has its row.
fn compare<'a>(steps: [Step; 2], said: &[String; 2], log: &'a [String]) -> [Vec<&'a str>; 2] {
    let told = steps.iter().zip(said);
    let mut claimed: Vec<&str> = told.filter_map(|(step, said)| step.claims(said)).collect();
    let mut logged: Vec<&str> = log.iter().map(String::as_str).collect();
    // The gateway's own notices end an order, and are told nothing but 204.
    if steps.iter().any(|step| matches!(step, Step::GatewayRefund | Step::ChargeBack)) {
        logged
            .retain(|step| !["refunded", "charged_back"].contains(step) || claimed.contains(step));
    }
    // Money that had gone back before it came is paid, or revived, and refunded by one call.
    let paid_and_returned = |(step, said): (&Step, &String)| {
        matches!(step, Step::Pay | Step::PayAgain) && said.starts_with("returned")
    };
    if steps.iter().zip(said).any(paid_and_returned) {
        logged.retain(|step| !["paid", "revived"].contains(step));
    }
    claimed.sort_unstable();
    logged.sort_unstable();
    [logged, claimed]
}

#[tokio::test]
async fn two_steps_that_meet_between_any_two_statements_keep_the_books() {
    let world = World::new().await;
    world.users(9).await;
    patient(&world).await;
    let points = put_stops(world.database.pool()).await;
    let mut to_play = Vec::new();
    for (scene, before, steps) in SCENES {
        for (first, second) in
            steps.iter().flat_map(|first| steps.iter().map(move |second| (*first, *second)))
        {
            for function in first.functions() {
                let at = (0..points[*function]).map(|number| format!("{function} {number}"));
                to_play.extend(at.map(|point| (scene, before, [first, second], point)));
            }
        }
    }
    let (to_play, played) = (RefCell::new(to_play), RefCell::new(BTreeMap::new()));
    let outcomes = RefCell::new(BTreeSet::new());
    let play = async |number: i32| {
        let mut race = Race::new(&world, number).await;
        loop {
            let next = to_play.borrow_mut().pop();
            let Some((scene, before, steps, point)) = next else { return };
            let stock = if ["sold out", "in line"].contains(&scene) { 1 } else { 2 };
            let voucher = set_up(&world, &mut race.second, stock, before).await;
            let logged_before = steps_of(world.database.pool(), voucher).await.len();
            let Some(said) = race.run(voucher, steps, &point).await else { continue };
            let name =
                format!("{scene}: {:?} stops at {point}, {:?}, told {said:?}", steps[0], steps[1]);
            let came = outcome(world.database.pool(), voucher, steps, &said).await;
            outcomes.borrow_mut().insert((scene, came));
            let log = steps_of(world.database.pool(), voucher).await;
            let [logged, claimed] = compare(steps, &said, &log[logged_before..]);
            assert_eq!(logged, claimed, "{name}");
            played.borrow_mut().insert(voucher, name);
        }
    };
    join_all((0..AT_ONCE).map(play)).await;
    let played = played.into_inner();
    println!("{} races", played.len());
    assert!(played.len() > 500, "{} races were played", played.len());
    let outcomes = outcomes.into_inner();
    for (scene, outcome) in OUTCOMES {
        assert!(outcomes.contains(&(scene, outcome.to_owned())), "{outcome}: {outcomes:#?}");
    }
    for (scene, outcome) in &outcomes {
        let mut known = OUTCOMES.iter().filter(|(at, it)| at == scene && pair(it) == pair(outcome));
        let is_other = known.clone().next().is_some() && !known.any(|(_, it)| it == outcome);
        assert!(!is_other, "{scene}: {outcome}");
    }
    for audit in seckill::purchase::audit::run(world.database.pool(), None).await.unwrap() {
        // Money that goes back twice is the gateway's doing, and the audit says so; nothing else may be wrong.
        let is_twice = |violation: &&Violation| violation.what.contains("went back twice");
        let name = played.get(&audit.voucher_id.get()).map_or("not played", String::as_str);
        assert!(audit.violations.iter().all(|it| is_twice(&it)), "{name}: {audit:?}");
        let both = |one: &str, other: &str| name.contains(one) && name.contains(other);
        let may_be_twice = name.contains("ChargeBack")
            || both("Settle", "Finish")
            || both("Settle", "GatewayRefund");
        assert!(audit.violations.is_empty() || may_be_twice, "{name}: {audit:?}");
    }
}

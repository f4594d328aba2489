//! The same crowd at a design of the ladder, beside the sale.

use std::process::Stdio;

use nix::sys::signal::Signal;
use sqlx::PgPool;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{demo, number, told};
use testkit::golden::assert_fields;
use testkit::processes::{DEADLINE, place, seckill, send};
use testkit::program::Program;
use testkit::servers;
use testkit::wait::eventually;

/// 20 buyers and a stock of 40: whoever sells all of it sells to somebody twice.
const CROWD: [&str; 6] = ["--stock", "40", "--users", "20", "--attempts", "4"];

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_design_breaks_beside_a_sale_that_holds() {
    let place = place();
    let arguments = [&CROWD[..], &["--against", "r02"]].concat();
    let (output, verdict) = demo(place.path(), &arguments, None).await;
    assert!(output.status.success(), "{output:?}");
    assert!(verdict["holds"].as_bool().unwrap(), "{verdict}");
    assert_eq!((number(&verdict, "orders"), number(&verdict, "duplicates")), (20, 0));
    let other = &verdict["against"];
    assert_fields("demo --json, against: a rush of the lab", other);
    assert_eq!((&other["rung"], &other["holds"]), (&"r02_row_lock".into(), &false.into()));
    // Nothing in r02 looks at who buys.
    let duplicates = number(other, "duplicates");
    assert!((20..40).contains(&duplicates), "{other}");
    assert_eq!((number(other, "orders"), number(other, "oversold")), (40, 0), "{other}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("HOLDS: 40 vouchers, 20 orders"), "{said}");
    let broken = format!("r02_row_lock: BROKEN: {duplicates} sold twice to one buyer: 40 orders");
    assert!(lines[1].starts_with(&broken) && lines.len() == 2, "{said}");
    let table = String::from_utf8(output.stderr).unwrap();
    let row = |name: &str| table.lines().find(|line| line.contains(name)).unwrap();
    let cells: Vec<_> = row("duplicates").split_whitespace().collect();
    assert_eq!(cells, ["duplicates", "0", &duplicates.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_design_that_writes_later_is_judged_when_it_has_written() {
    let place = place();
    let arguments = ["--stock", "30", "--users", "60", "--attempts", "2", "--against", "r20"];
    let (output, verdict) = demo(place.path(), &arguments, None).await;
    assert!(output.status.success(), "{output:?}");
    let other = &verdict["against"];
    assert!(other["holds"].as_bool().unwrap(), "{verdict}");
    assert_eq!((number(other, "orders"), number(other, "remaining")), (30, 0));
    // The answers were promises.
    assert_eq!(told(other, "ordered"), 30, "{other}");
}

/// It says what is on sale before it looks for the rung.
#[tokio::test]
async fn a_rung_that_is_not_there_is_refused_before_the_sale() {
    for rung in ["r99", "../r01", "--help", ""] {
        let ran = Program::alone().run(&["demo", &format!("--against={rung}")]).await;
        let said = format!("--against: there is no {rung:?}; there is: ");
        assert!(ran.status == 2 && ran.stderr.contains(&said), "{ran:?}");
        assert!(!ran.stderr.contains("The rush"), "{ran:?}");
    }
}

async fn scratch_databases(pool: &PgPool) -> i64 {
    let count = "select count(*) from pg_database where datname like 'seckill\\_lab\\_%'";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

/// On servers that are the user's, nobody else would ever drop the lab's scratch databases.
#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_ended_while_the_lab_sells_leaves_no_scratch_database() {
    let servers = servers::own().await;
    let (database, redis) = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let pool = PgPool::connect(database).await.unwrap();
    let place = place();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // The lab makes its databases first: it has all of the sale before it when the signal comes.
        let mut command = seckill(&["demo", "--stock", "2000", "--users", "2000"]);
        command.args(["--attempts", "2", "--against", "r01"]).env("TMPDIR", place.path());
        command.env("DATABASE_URL", database).env("REDIS_URL", redis);
        let mut demo = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(demo.stderr.take().unwrap()).lines();
        tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        eventually("the lab has its scratch databases", async || {
            scratch_databases(&pool).await == 2
        })
        .await;
        send(demo.id().unwrap(), signal);
        let ended = tokio::time::timeout(DEADLINE, demo.wait()).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(130));
        assert_eq!(scratch_databases(&pool).await, 0, "{signal}");
    }
    pool.close().await;
    servers::ended(servers).await;
}

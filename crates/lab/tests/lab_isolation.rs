//! `seckill lab isolation`: every cell on real servers, claims that are false, servers that are not there.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use faults::MariaDbNode;
use futures_util::future::join_all;
use ladder::Tables;
use nix::sys::signal::Signal;
use private_stores::Servers;
use seckill::http::Language;
use seckill_lab::isolation::{
    CASES, DatabaseKind, IsolationCell, IsolationClaim, IsolationLevel, IsolationServer, play_cell,
};
use seckill_lab::{MatrixPlace, Outcome, World};
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};
use tokio::io::AsyncReadExt;

use crate::course::timeline::printed;
use crate::isolation_docs::timelines;
use crate::kept::new_lab as lab;
use crate::lab_cli::{in_the_middle, on};
use testkit::needs::{needs, needs_mariadb};
use testkit::processes::send;
use testkit::program::Program;
use testkit::shop::world;
use testkit::wait::must;

fn on_mariadb(node: &MariaDbNode) -> IsolationServer {
    IsolationServer::mariadb(node.socket())
}

fn on_postgres(lab: &World) -> IsolationServer {
    IsolationServer::postgres(lab.database_url(Tables::Bare).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_isolation_is_as_claimed_and_as_the_pages_show_it() {
    let (lab, node, shown) = (lab().await, needs_mariadb().await, timelines());
    let servers = [Some(on_postgres(&lab)), node.as_ref().map(on_mariadb)];
    let wrong = servers.iter().flatten().map(async |server| {
        let mut wrong = Vec::new();
        for level in IsolationLevel::ALL {
            let claimed =
                CASES.iter().filter_map(|case| Some((case, case.claim(server.kind(), level)?)));
            let claimed: Vec<_> = claimed.collect();
            assert!(claimed.len() >= 25, "only {} cells", claimed.len());
            for (case, claim) in claimed {
                let cell = play_cell(server, case, level, claim).await;
                let printed = printed(&cell, Language::English).join("\n");
                let shown = shown.get(&cell.of.name());
                if !cell.is_as_claimed() || shown.is_some_and(|shown| shown.text() != printed) {
                    let place = shown.map_or("", |shown| &shown.place);
                    wrong.push(format!("{place}: the lab prints\n{printed}"));
                }
            }
        }
        wrong
    });
    let wrong = join_all(wrong).await.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    lab.close().await.unwrap();
}

async fn cell(
    server: &IsolationServer,
    name: &str,
    level: IsolationLevel,
    falsify: impl FnOnce(IsolationClaim) -> IsolationClaim,
) -> IsolationCell {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let claim = falsify(case.claim(server.kind(), level).unwrap());
    play_cell(server, case, level, claim).await
}

fn other_way(claim: IsolationClaim) -> IsolationClaim {
    let outcome = match claim.outcome {
        Outcome::Holds => Outcome::Breaks,
        _ => Outcome::Holds,
    };
    IsolationClaim { outcome, ..claim }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_claim_is_found_out_either_way() {
    let (lab, node) = (lab().await, needs_mariadb().await);
    let no_error = |claim| IsolationClaim { errors: "", ..claim };
    let error = |claim| IsolationClaim { errors: "40001", ..claim };
    for server in [Some(on_postgres(&lab)), node.as_ref().map(on_mariadb)].iter().flatten() {
        let level = IsolationLevel::ReadCommitted;
        let breaks = cell(server, "r01_last_one", level, other_way).await;
        assert!(breaks.is_wrong() && breaks.observed == Outcome::Breaks, "{breaks:?}");
        assert_eq!(breaks.outcome(), "breaks, NOT as claimed: it is claimed to hold");
        let holds = cell(server, "r04_last_one", level, other_way).await;
        assert!(holds.is_wrong() && holds.observed == Outcome::Holds, "{holds:?}");
        let stuck = cell(server, "opposite_order", level, no_error).await;
        assert!(stuck.is_wrong() && stuck.observed == Outcome::Breaks, "{stuck:?}");
        assert!(cell(server, "same_order", level, error).await.is_wrong());
    }
    lab.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sleeps_or_is_gone_is_unknown_and_nobody_waits_for_ever() {
    let Some(mut node) = needs_mariadb().await else { return };
    let server = on_mariadb(&node).with_patience(Duration::from_millis(500));
    let level = IsolationLevel::ReadCommitted;
    node.process.pause().unwrap();
    let sleeps = must("it gives up", cell(&server, "r04_last_one", level, |claim| claim)).await;
    assert!(sleeps.is_wrong() && sleeps.observed == Outcome::Unknown, "{sleeps:?}");
    assert_eq!(sleeps.witness.unwrap().to_string(), "MariaDB came to no answer within 500ms");
    node.process.kill();
    let gone = cell(&server, "r04_last_one", level, |claim| claim).await;
    assert!(gone.is_wrong() && gone.observed == Outcome::Unknown, "{gone:?}");
    assert!(gone.witness.unwrap().to_string().starts_with("MariaDB does not answer: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn named_cells_are_told_with_their_timelines_and_all_of_them_as_json() {
    let program = Program::on(&world::World::new().await);
    let postgres = ["lab", "isolation", "--server", "postgres", "write_skew"];
    let told = program.says(&[&postgres[..], &["--level", "serializable"]].concat()).await;
    assert!(told.contains("write_skew postgres serializable: one user buys both"), "{told}");
    assert!(told.contains("    T2     commit: ERROR 40001: could not serialize"), "{told}");
    assert!(told.contains("  one_per_user holds with 40001, as claimed ("), "{told}");
    assert!(told.ends_with("\n1 cell: 1 as claimed\n"), "{told}");

    let json = program.says(&[&postgres[..], &["--json", "-"]].concat()).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    assert_eq!(cells[0]["level"], "read-committed");
    assert_eq!((&cells[0]["claimed"], &cells[0]["observed"]), (&"breaks".into(), &"breaks".into()));
    assert_eq!((&cells[2]["server"], &cells[2]["errors"]), (&"postgres".into(), &"40001".into()));
    assert_eq!(cells[2]["timeline"][0]["text"], "begin");
}

/// No shell is found on such a path, and so nothing of MariaDB.
#[tokio::test(flavor = "multi_thread")]
async fn without_mariadb_its_cells_are_skipped_and_named() {
    let program = Program::on(&world::World::new().await).with("PATH", "/nonexistent");
    let ran = program.run(&["lab", "isolation", "write_skew", "--level", "serializable"]).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.contains("write_skew mariadb serializable"), "{ran:?}");
    let sentence = "1 cell of MariaDB: MariaDB is not installed: run scripts/setup.sh lab";
    assert!(ran.stdout.contains(sentence), "{ran:?}");
    assert!(ran.stdout.ends_with("2 cells: 1 as claimed, 1 skipped\n"), "{ran:?}");
}

/// Every order comes twice.
pub const TWICE: &str = "if pg_trigger_depth() = 1 then
       insert into orders (user_id, voucher_id) values (new.user_id, new.voucher_id);
     end if;
     return new;";

/// A voucher is never sold a second time.
const ONCE: &str =
    "if exists (select from orders where voucher_id = new.voucher_id) then return null; end if;
     return new;";

/// Servers on which this happens before each order, in every table of orders that is made from now on.
pub async fn sabotaged(body: &str) -> Servers {
    let servers = testkit::servers::own().await;
    let mut template = url::Url::parse(servers.database_url().unwrap()).unwrap();
    template.set_path("template1");
    let mut template = PgConnection::connect(template.as_str()).await.unwrap();
    let sabotage = format!(
        "create function public.meddle() returns trigger language plpgsql as $$
         begin {body} end $$;
         create function public.sabotage() returns event_trigger language plpgsql as $$
         begin
           if to_regclass('orders') is not null and not exists (
             select from pg_trigger where tgrelid = to_regclass('orders') and tgname = 'meddle'
           ) then
             create trigger meddle before insert on orders
               for each row execute function public.meddle();
           end if;
         end $$;
         create event trigger sabotage on ddl_command_end execute function public.sabotage();"
    );
    template.execute(sqlx::AssertSqlSafe(sabotage)).await.unwrap();
    template.close().await.unwrap();
    servers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_otherwise_than_claimed_is_an_exit_status_either_way() {
    for (body, case, outcome) in [
        (TWICE, "r02_last_one", "breaks, NOT as claimed: it is claimed to hold"),
        (ONCE, "r01_last_one", "holds, NOT as claimed: it is claimed to break"),
    ] {
        let servers = sabotaged(body).await;
        let arguments = ["lab", "isolation", case, "--server", "postgres"];
        let ran =
            on(&servers).run(&[&arguments[..], &["--level", "read-committed"]].concat()).await;
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.stdout.contains(outcome), "{ran:?}");
        assert!(ran.stdout.ends_with("\n1 cell: 0 as claimed, 1 NOT as claimed\n"), "{ran:?}");
    }
}

fn is_mariadb(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "mariadbd")
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn a_mariadb_that_is_killed_in_the_middle_is_unknown_in_a_sentence() {
    let Some(_) = needs("MariaDB", MariaDbNode::find()) else { return };
    let program = Program::on(&world::World::new().await);
    let mut command = program.command(&["lab", "isolation", "--server", "mariadb"]);
    command.stdout(Stdio::piped());
    // A busy machine has other things to say, too.
    let played = "r01_last_one mariadb read-committed: breaks, as claimed";
    let (mut lab, below) = in_the_middle(command, played, 1).await;
    let server = below.into_iter().find(|pid| is_mariadb(*pid)).unwrap();
    send(server, Signal::SIGKILL);
    let mut stdout = String::new();
    must("it ends", lab.stdout.take().unwrap().read_to_string(&mut stdout)).await.unwrap();
    assert_eq!(must("it ends", lab.wait()).await.unwrap().code(), Some(1), "{stdout}");
    assert!(stdout.contains(" unknown, NOT as claimed: "), "{stdout}");
    let reason =
        ["lost its connection to MariaDB", "MariaDB does not answer", "connection is gone"];
    assert!(reason.iter().any(|words| stdout.contains(words)), "{stdout}");
    assert!(stdout.contains("unknown for the same reason: "), "{stdout}");
}

#[test]
fn cases_have_names_of_their_own_and_both_servers() {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), CASES.len());
    for kind in DatabaseKind::ALL {
        let claims = CASES.iter().flat_map(|known| {
            IsolationLevel::ALL.into_iter().filter_map(move |level| known.claim(kind, level))
        });
        let outcomes: Vec<Outcome> = claims.map(|claim| claim.outcome).collect();
        // A matrix in which nothing breaks, or nothing holds, teaches nothing.
        assert!(outcomes.contains(&Outcome::Holds) && outcomes.contains(&Outcome::Breaks));
    }
}

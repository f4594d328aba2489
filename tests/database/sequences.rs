//! A move to another database copies the rows, and perhaps not the sequences behind their ids.

use sqlx::{Connection, Executor};

use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::world::World;

const ADD: [&str; 6] = ["voucher", "add", "--title", "after the move", "--stock", "1"];

#[tokio::test(flavor = "multi_thread")]
async fn sequences_that_a_move_left_behind_are_told_by_all_who_meet_them_and_mended() {
    let world = World::new().await;
    world.users(4).await;
    for _ in 0..3 {
        world.voucher(1).await;
    }
    let program = Program::on(&world);
    let added = program.says(&ADD).await;
    let doctor = async || {
        let told = program.run(&["doctor"]).await.stdout;
        told.lines().find(|line| line.contains("PostgreSQL sequences")).unwrap().to_owned()
    };
    // A sequence at the greatest id does not lag.
    assert!(doctor().await.starts_with("ok "), "{added}");
    assert_eq!(program.says(&["migrate"]).await, "the database is up to date\n");

    // A reader of events has those up to 7.
    let moved = "alter sequence users_id_seq restart; select setval('vouchers_id_seq', 3);
        update event_horizon set reached = 7";
    world.database.pool().execute(moved).await.unwrap();
    let of = [("users.id", "0", "4"), ("vouchers.id", "3", "4"), ("orders.seq", "0", "7")];
    let lagging = of.map(|(column, last, greatest)| {
        format!("the sequence of {column} is at {last}, and the greatest id is {greatest}")
    });
    let refused = program.run(&ADD).await;
    assert!(refused.status != 0 && refused.stderr.contains("vouchers_pkey"), "{refused:?}");
    // That try has moved it by one: here it is the database of before again.
    world.database.pool().execute("select setval('vouchers_id_seq', 3)").await.unwrap();
    let told = doctor().await;
    let log = Node::serve(&program, &[]).await.stop().await;
    for lagging in &lagging {
        assert!(told.starts_with("danger") && told.contains(lagging), "{told}");
        assert!(log.contains(&format!("{lagging}: the next ids are taken")), "{log}");
    }

    let held = world.begin("lock table users in row exclusive mode").await;
    let ran = program.run(&["migrate"]).await;
    assert!(
        ran.status == 1 && ran.stderr.contains("end it (pg_stat_activity), and run"),
        "{ran:?}"
    );
    held.close().await.unwrap();
    let mended = lagging.map(|lagging| format!("{lagging}: it was set to that\n")).concat();
    let said = program.says(&["migrate"]).await;
    assert_eq!(said, format!("the database is up to date\n{mended}"));
    assert_eq!(program.says(&["migrate"]).await, "the database is up to date\n");
    assert!(doctor().await.starts_with("ok "));
    program.says(&ADD).await;
    assert_eq!(
        seckill::store::users::reserve_ids(world.database.pool(), 1).await.unwrap().get(),
        5
    );
}

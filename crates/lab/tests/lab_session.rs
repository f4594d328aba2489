//! A session on real servers: the test is the scheduler, and what it sees is what is there.

use std::collections::BTreeSet;

use ladder::{self, Invariant, RUNGS};
use seckill_lab::game::{GamePlan, Schedule, Step};
use seckill_lab::session::{LabSession, SessionState, StepError, StepRefusal};

use crate::kept::{has_lock_of, lab_of_games as lab};
use crate::lab_explore::leaf_of;

fn plan(rung: &str, users: u8, processes: u8, stock: i32) -> GamePlan {
    GamePlan::new(ladder::find(rung).unwrap(), users, processes, stock)
}

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

/// Without what the clock changes, and what locks over several servers leave open: whether a waiter of
/// RedLock that needs two of three servers gets the third, too; whether a waiter of a multi-lock still
/// has one of the locks that it tries and gives back, of which nobody is named as the holder.
fn steady(mut state: SessionState) -> SessionState {
    for lock in &mut state.locks {
        lock.ttl_ms = lock.ttl_ms.map(|_| 0);
    }
    match state.rung {
        "r14_multi_lock" => state.locks.retain(|lock| lock.holder.is_some()),
        "r15_redlock" => {
            state.locks.clear();
            for event in state.timeline.iter_mut().filter(|event| event.kind == "locked") {
                event.detail.clear();
                event.text = "".into();
            }
        }
        _ => {}
    }
    state
}

/// What a client sees of it: the ids of orders, which differ, are not among that.
fn shown(state: &SessionState) -> serde_json::Value {
    serde_json::to_value(state).unwrap()
}

/// What there is to see after these steps.
async fn after(session: &mut LabSession<'_>, steps: &str) -> SessionState {
    session.play(&schedule(steps)).await.unwrap();
    session.state().await.unwrap()
}

/// Why the step is not taken.
async fn refusal(session: &mut LabSession<'_>, step: Step) -> StepRefusal {
    match session.step(step).await {
        Err(StepError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn can_be_played(lesson: &ladder::Lesson) -> bool {
    has_lock_of(ladder::find(lesson.rung).unwrap())
}

/// Both halves of every lesson: what is claimed holds, what is not breaks. Played a second time on the
/// same processes it comes to the same, and so does taking back the last step.
#[tokio::test(flavor = "multi_thread")]
async fn every_lesson_comes_out_as_its_rung_claims_each_time_it_is_played() {
    for rung in RUNGS {
        assert!(!rung.lessons().is_empty(), "{}", rung.id);
    }
    let world = lab().await;
    for lesson in ladder::lessons().filter(|lesson| can_be_played(lesson)) {
        let name = format!("{} {}", lesson.rung, lesson.scenario);
        let plan = plan(lesson.rung, lesson.users, lesson.processes, lesson.stock);
        let mut session = LabSession::start(&world, plan).await.unwrap();
        let mut seen = vec![steady(session.state().await.unwrap())];
        for step in schedule(&lesson.schedule).0 {
            session.step(step).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            seen.push(steady(session.state().await.unwrap()));
        }
        let last = seen.last().unwrap();
        let broken: Vec<Invariant> = last.broken.iter().map(|broken| broken.invariant).collect();
        let expected = match plan.rung.claims_to_survive(lesson.scenario) {
            true => vec![],
            false => vec![lesson.scenario.invariant()],
        };
        assert_eq!(broken, expected, "{name}\n{last:?}");
        assert!(last.is_over, "{name}\n{last:?}");
        assert!(last.broken.iter().all(|broken| !broken.claimed), "{name}");

        for (steps, before) in seen.iter().enumerate().skip(seen.len() - 2) {
            session.start_over(plan).await.unwrap();
            session.play(&schedule(&lesson.schedule[..steps])).await.unwrap();
            let now = steady(session.state().await.unwrap());
            assert_eq!(shown(&now), shown(before), "{name}, {steps} steps");
        }
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clicks_that_both_count_first_are_both_sold_to() {
    let world = lab().await;
    let mut session =
        LabSession::start(&world, plan("r05a_check_then_insert", 1, 1, 2)).await.unwrap();
    let begun = session.state().await.unwrap();
    assert_eq!(begun.actors[0].at, "not_begun");
    assert!(begun.actors.iter().all(|actor| actor.can_step && actor.line.is_some()));
    let one = after(&mut session, "ABA").await;
    assert_eq!((one.actors[0].at, one.actors[0].line), ("ordered", None));
    assert_eq!(one.actors[1].at, "orders_counted");
    assert_eq!((one.row.stock, one.orders.len(), one.broken.len()), (1, 1, 0));
    let both = after(&mut session, "B").await;
    assert_eq!((both.row.stock, both.schedule.as_str()), (0, "ABAB"));
    assert_eq!(both.broken.len(), 1);
    assert_eq!(both.broken[0].invariant, Invariant::OnePerUser);
    let witness = both.broken[0].witness.to_string();
    assert_eq!(witness, "user 1 holds 2 orders: order 1 and order 2");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_waits_for_the_lock_goes_on_in_the_step_that_gives_it_back() {
    let world = lab().await;
    let mut session = LabSession::start(&world, plan("r13d_redisson_lock", 1, 2, 2)).await.unwrap();
    let waiting = after(&mut session, "ABB").await;
    assert_eq!(waiting.actors[1].at, "waits_in_process");
    assert!(!waiting.actors[1].can_step && !waiting.actors[1].is_over);
    assert_eq!(waiting.locks.len(), 1);
    let lock = &waiting.locks[0];
    assert_eq!((lock.key.as_str(), lock.kind, lock.holds), ("lock:order:1", "hash", Some(1)));
    assert_eq!(lock.holder.as_deref(), Some("A"));
    assert!(lock.ttl_ms.is_some_and(|ttl| ttl > 0));
    assert_eq!(refusal(&mut session, Step::Go(1)).await, StepRefusal::Waits { buyer: "B" });

    session.play(&schedule("AAAA")).await.unwrap();
    assert_eq!(session.state().await.unwrap().actors[1].at, "waits_in_process");
    let free = after(&mut session, "A").await;
    assert_eq!((free.actors[0].at, free.actors[1].at), ("ordered", "locked"));
    assert_eq!(free.locks[0].holder.as_deref(), Some("B"));
    assert_eq!(free.schedule, "ABBAAAAA");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_makes_no_sense_is_refused_and_changes_nothing() {
    let world = lab().await;
    let mut session = LabSession::start(&world, plan("r09_set_nx_px", 1, 2, 2)).await.unwrap();
    assert_eq!(refusal(&mut session, Step::EndLease).await, StepRefusal::NoLease);
    // B is turned away at once.
    session.play(&schedule("AB")).await.unwrap();
    let before = steady(session.state().await.unwrap());
    assert!(before.lease_can_end);
    assert_eq!(refusal(&mut session, Step::Go(1)).await, StepRefusal::IsOver { buyer: "B" });
    assert_eq!(steady(session.state().await.unwrap()), before);
    session.close().await;

    // A lock without a lease has none that could end.
    let mut session = LabSession::start(&world, plan("r08a_setnx", 1, 2, 2)).await.unwrap();
    let held = after(&mut session, "A").await;
    assert_eq!((held.locks.len(), held.locks[0].ttl_ms, held.lease_can_end), (1, None, false));
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_the_third_actor_and_what_is_left_at_the_end_is_done_by_itself() {
    let world = lab().await;
    let two = plan("r21a_lua_and_stream", 2, 2, 2);
    let mut session = LabSession::start(&world, two).await.unwrap();
    let begun = session.state().await.unwrap();
    assert_eq!((begun.actors[2].name, begun.actors[2].can_step), ("C", false));
    assert_eq!(refusal(&mut session, Step::Go(2)).await, StepRefusal::Idle);
    assert_eq!(refusal(&mut session, schedule("K").0[0]).await, StepRefusal::NoKill);

    // A is told yes before anything is written: no promise is broken as long as C may still write it.
    let told = after(&mut session, "AA").await;
    assert_eq!((told.actors[0].at, told.orders.len(), told.row.stock), ("ordered", 0, 2));
    assert!(told.actors[2].can_step && told.can_kill && told.broken.is_empty() && !told.is_over);
    let taken = after(&mut session, "C").await;
    assert_eq!(taken.actors[2].at, "entry_read");
    assert!(taken.actors[2].line.is_some());

    // The process dies with the entry in hand; B's is another one, and everything is done at the end.
    let killed = after(&mut session, "K").await;
    assert!(!killed.can_kill && !killed.actors[2].can_step && killed.actors[1].can_step);
    assert!(killed.broken.is_empty() && !killed.is_over);
    let end = after(&mut session, "BB").await;
    assert!(end.is_over && end.orders.len() == 1, "{end:?}");
    assert_eq!(end.broken[0].invariant, Invariant::NoBrokenPromise);
    assert!(end.timeline.iter().any(|event| event.actor == Some("C2")), "{end:?}");
    assert_eq!(refusal(&mut session, Step::Go(1)).await, StepRefusal::IsOver { buyer: "B" });

    // The process is there again when it begins anew, and nothing is left in the stream.
    session.start_over(two).await.unwrap();
    let again = after(&mut session, "AABB").await;
    assert!(again.actors[2].can_step && again.orders.is_empty(), "{again:?}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_locks_its_user_out_where_the_lock_has_no_lease() {
    let world = lab().await;
    for (rung, broken) in [("r08a_setnx", true), ("r09_set_nx_px", false), ("r13b_wakeup", false)] {
        let one = plan(rung, 1, 2, 2);
        let mut session = LabSession::start(&world, one).await.unwrap();
        let mut end = after(&mut session, "ABK").await;
        while !end.is_over {
            session.step(Step::Go(1)).await.unwrap();
            end = session.state().await.unwrap();
        }
        let found: Vec<Invariant> = end.broken.iter().map(|it| it.invariant).collect();
        let expected = if broken { vec![Invariant::NoLockout] } else { vec![] };
        assert_eq!(found, expected, "{rung}\n{end:?}");
        assert!(end.timeline.iter().any(|event| event.actor == Some("A2")), "{end:?}");
        session.close().await;
    }
    // One process for both, two users, or no lock: nothing would come of it.
    for (rung, users, processes) in
        [("r09_set_nx_px", 1, 1), ("r09_set_nx_px", 2, 2), ("r05a_check_then_insert", 1, 2)]
    {
        let mut session = LabSession::start(&world, plan(rung, users, processes, 2)).await.unwrap();
        session.step(Step::Go(0)).await.unwrap();
        assert!(!session.state().await.unwrap().can_kill, "{rung} {users} {processes}");
        session.close().await;
    }
}

/// Every kind of step and of beginning: a pause, a kill of either process, a session with ZooKeeper that ends, an
/// order that is not paid.
#[tokio::test(flavor = "multi_thread")]
async fn what_explore_plays_a_session_plays_and_both_see_the_same() {
    let world = lab().await;
    for (rung, from, steps) in [
        ("r13d", "double_click", "A1 A2 A3 P:A B1 B2 B3 B4 B5 B6 A4"),
        ("r13d", "double_click", "A1 B1 B2 P:A"),
        ("r13d", "double_click", "B1 A1 K:B"),
        ("r08a", "double_click", "B1 K:B A1"),
        ("r17", "double_click", "A1 K:A B1"),
        ("r17", "double_click", "A1 A2 A3 P:A B1"),
        ("r21a", "herd", "A1 A2 W1 K:W B1"),
        ("r24", "unpaid", "T1 A1 A2 T2"),
        ("r24", "unpaid", "K:T B1"),
        ("r25", "buys_again", "A1 T1 B1"),
    ] {
        if !has_lock_of(ladder::find(rung).unwrap()) {
            continue;
        }
        let (setting, leaf) = leaf_of(&world, rung, from, steps).await;
        let explored: BTreeSet<Invariant> = leaf.broken.iter().map(|it| it.invariant).collect();

        let mut session = LabSession::start(&world, setting.plan()).await.unwrap();
        // At once, and step by step as a person does, who has played something else before.
        for is_at_once in [true, false] {
            if is_at_once {
                let short = leaf.schedule.short().parse().unwrap();
                let (_, refused) = session.play_with_frames(&short).await.unwrap();
                assert_eq!(refused, None, "{rung} {}", leaf.schedule);
            } else {
                session.start_over(setting.plan()).await.unwrap();
                for step in &leaf.schedule.0 {
                    session.step(*step).await.unwrap();
                }
            }
            let state = session.state().await.unwrap();
            let seen: BTreeSet<Invariant> = state.broken.iter().map(|it| it.invariant).collect();
            assert_eq!(seen, explored, "{rung} {}\n{state:?}", leaf.schedule);
            assert!(state.is_over, "{rung} {}", leaf.schedule);
        }
        session.close().await;
    }
}

/// What is broken off must not keep its row locked, nor its lock in Redis.
#[tokio::test(flavor = "multi_thread")]
async fn starting_over_leaves_nothing_of_what_was_broken_off() {
    let world = lab().await;
    // A has the row locked, and B queues for it; A has the lock.
    for (plan, steps) in
        [(plan("r02_row_lock", 2, 2, 1), "AB"), (plan("r12_reentrant", 1, 2, 1), "A")]
    {
        let mut session = LabSession::start(&world, plan).await.unwrap();
        for _ in 0..10 {
            let under_way = after(&mut session, steps).await;
            match steps {
                "A" => assert_eq!(under_way.locks.len(), 1),
                _ => assert_eq!(under_way.actors[1].at, "waits_in_database"),
            }
            session.start_over(plan).await.unwrap();
            let begun = session.state().await.unwrap();
            assert_eq!((begun.schedule.as_str(), begun.row.stock), ("", 1));
            assert_eq!((begun.timeline.len(), begun.locks.len()), (0, 0));
        }
        session.close().await;
    }
}

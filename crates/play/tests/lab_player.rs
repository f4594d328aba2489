//! Sessions over HTTP: who plays, who is told that all seats are taken, and what is left afterwards.

use std::sync::Arc;
use std::time::Duration;

use seckill_play::page::{self, Player, PlayerOptions, PlayerThread};
use serde_json::{Value, json};

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::World;
use testkit::wait::eventually;

const SESSIONS: &str = "/api/lab/sessions";

/// Where a test plays: the servers of this run, and nobody loses a seat by the clock. There are seats for all pages of a
/// test: one that was closed has its seat until the server hears of it, and a browser may go before it says so.
pub async fn options() -> PlayerOptions {
    let (postgres, redis) = testkit::servers::urls().await;
    PlayerOptions {
        database_url: Some(postgres),
        redis_url: Some(redis),
        seats: 8,
        free_after: Duration::from_secs(600),
        ends_after: Duration::from_secs(600),
    }
}

/// The same with two seats.
pub async fn two_seats() -> PlayerOptions {
    PlayerOptions { seats: 2, ..options().await }
}

/// A server with the ladder on it.
pub struct Played {
    pub api: Api,
    thread: PlayerThread,
}

impl Played {
    pub async fn new(options: PlayerOptions) -> Self {
        // Why a session has failed is said in the log alone.
        let _ = tracing_subscriber::fmt()
            .with_env_filter("seckill_play=warn,seckill_lab=warn")
            .try_init();
        let world = World::new().await;
        let (player, thread) = Player::start(options).unwrap();
        let site = Arc::new(seckill_play::play::site());
        let routes = page::routes(player, &site);
        let address = World::serve_app(world.app().await, &site, routes);
        Self { api: Api::at(world, address), thread }
    }

    async fn opened(&self, body: &Value) -> Value {
        let answer = self.api.post(SESSIONS, body).await;
        answer.is(201);
        answer.body.clone()
    }

    pub async fn close(self) {
        self.thread.close().await;
    }
}

fn steps_of(session: &Value) -> String {
    format!("{SESSIONS}/{}/steps", session["session"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_played_step_by_step_or_at_once() {
    let played = Played::new(options().await).await;
    let plan = json!({ "rung": "r05a", "users": 1, "processes": 1, "stock": 2 });
    let begun = played.opened(&plan).await;
    assert_eq!(
        (&begun["schedule"], &begun["rung"]),
        (&json!(""), &json!("r05a_check_then_insert"))
    );
    let mut last = Value::Null;
    for actor in ["A", "B", "A", "B"] {
        let answer = played.api.post(&steps_of(&begun), &json!({ "actor": actor })).await;
        answer.is(200);
        last = answer.body.clone();
    }
    assert_eq!(last["broken"][0]["invariant"], "one_per_user");
    assert_eq!(last["session"], begun["session"]);
    let mut at_once = plan.clone();
    at_once["schedule"] = json!("ABAB");
    at_once["session"] = begun["session"].clone();
    let mut opened = played.opened(&at_once).await;
    // What there was to see on the way comes with it: before each step.
    let frames = opened.as_object_mut().unwrap().remove("frames").unwrap();
    let seen: Vec<u64> =
        frames.as_array().unwrap().iter().map(|it| it["events"].as_u64().unwrap()).collect();
    assert_eq!(seen, [0, 1, 2, 3]);
    assert_eq!(frames[0]["actors"], begun["actors"]);
    assert_eq!(opened, last);
    let looked = played.api.get(steps_of(&begun).trim_end_matches("/steps")).await;
    assert_eq!(looked.is(200).body, last);
    // Another rung in the same session, and a schedule that goes no further than it can.
    let body = json!({ "rung": "r13d_redisson_lock", "users": 1, "stock": 2, "schedule": "ABBBA",
        "session": begun["session"] });
    let stopped = played.opened(&body).await;
    assert_eq!((&stopped["schedule"], &stopped["session"]), (&json!("ABB"), &begun["session"]));
    assert_eq!(stopped["refused"], "B waits for the other buyer");
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_played_is_refused_in_a_sentence() {
    let played = Played::new(options().await).await;
    for body in [
        json!({ "rung": "r99" }),
        json!({ "rung": "r0" }),
        json!({ "rung": "<script>".repeat(1000) }),
        json!({ "rung": "r05a", "schedule": "ABX" }),
        json!({ "rung": "r05a", "schedule": "A".repeat(101) }),
        json!({ "rung": "r05a", "users": 3 }),
        json!({ "rung": "r05a", "users": -1 }),
        json!({ "rung": "r05a", "processes": 0 }),
        json!({ "rung": "r05a", "stock": 10 }),
        json!({ "rung": "r05a", "stock": 1.5 }),
        json!({ "rung": "r05a", "unpaid": true }),
        // Nobody can have bought what was never there.
        json!({ "rung": "r24", "unpaid": true, "stock": 0 }),
        json!({ "rung": "r25", "unpaid": true, "stock": 0, "schedule": "T" }),
        json!({ "rung": "r31a", "unpaid": true, "stock": 0, "users": 1, "processes": 1 }),
        json!({ "rung": "r31b", "unpaid": true, "stock": 0 }),
        json!({ "rung": "r05a", "seed": 1 }),
        json!({ "rung": "r05a", "session": "mine" }),
        json!({ "schedule": "AB" }),
        json!([]),
    ] {
        played.api.post(SESSIONS, &body).await.problem(422, "invalid_request");
    }
    let none = format!("{SESSIONS}/00000000-0000-4000-8000-000000000000");
    for session in [none.as_str(), "/api/lab/sessions/none"] {
        played.api.get(session).await.problem(404, "not_found");
        let steps = format!("{session}/steps");
        played.api.post(&steps, &json!({ "actor": "A" })).await.problem(404, "not_found");
        let ended = played.api.send(played.api.request("DELETE", session)).await;
        ended.problem(404, "not_found");
    }
    let begun = played.opened(&json!({ "rung": "r08a" })).await;
    for actor in [json!("C"), json!("X"), json!("a"), json!("AB"), json!(1), Value::Null] {
        let refused = played.api.post(&steps_of(&begun), &json!({ "actor": actor })).await;
        refused.problem(422, "invalid_request");
    }
    // A lock that never ends by itself has no lease.
    played.api.post(&steps_of(&begun), &json!({ "actor": "A" })).await.is(200);
    let lease = played.api.post(&steps_of(&begun), &json!({ "actor": "L" })).await;
    lease.problem(422, "invalid_request");
    played.api.get("/api/lab/rungs/r99").await.problem(404, "not_found");
    let file = played.api.get("/api/lab/rungs/r06_global_mutex").await;
    assert!(file.is(200).body["from_previous"].as_array().unwrap().len() > 40);
    played.close().await;
}

/// A player of a test: a session's name of its own.
struct Person<'a> {
    played: &'a Played,
    session: String,
}

impl<'a> Person<'a> {
    fn of(played: &'a Played) -> Self {
        Self { played, session: uuid::Uuid::new_v4().to_string() }
    }

    /// Asks to play.
    async fn asks(&self) -> Answer {
        let body = json!({ "rung": "r02", "schedule": "A", "session": self.session });
        self.played.api.post(SESSIONS, &body).await
    }

    /// Takes a step.
    async fn steps(&self) -> Answer {
        let step = format!("{SESSIONS}/{}/steps", self.session);
        self.played.api.post(&step, &json!({ "actor": "A" })).await
    }

    async fn leaves(&self) -> u16 {
        let at = format!("{SESSIONS}/{}", self.session);
        self.played.api.send(self.played.api.request("DELETE", &at)).await.status
    }

    async fn looks(&self) -> u16 {
        self.played.api.get(&format!("{SESSIONS}/{}", self.session)).await.status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_play_at_once_and_a_third_is_told_that_all_seats_are_taken() {
    let played = Played::new(two_seats().await).await;
    let people: Vec<Person<'_>> = (0..3).map(|_| Person::of(&played)).collect();
    // All but one, all, and one beyond.
    people[0].asks().await.is(201);
    people[1].asks().await.is(201);
    let refused = people[2].asks().await;
    let problem = refused.problem(503, "unavailable");
    assert_eq!(problem.body["detail"], "all 2 seats are taken: try again in a moment");
    assert_eq!(refused.header("retry-after"), Some("5"));
    let asks = played.api.request("POST", SESSIONS);
    let asks = asks.json(&json!({ "rung": "r02", "session": people[2].session }));
    let refused = played.api.send(asks.header("accept-language", "zh-CN")).await;
    let problem = refused.problem(503, "unavailable");
    assert_eq!(problem.body["detail"], "2 个位置都有人在玩：请稍后再试");
    // Who plays is not disturbed, and may play something else.
    people[0].steps().await.is(200);
    people[1].asks().await.is(201);
    // Who was refused has nothing; one who plays leaves, and there is a seat.
    assert_eq!([people[2].leaves().await, people[1].leaves().await], [404, 204]);
    assert_eq!(people[1].looks().await, 404);
    people[2].asks().await.is(201);
    people[1].asks().await.problem(503, "unavailable");
    assert_eq!([people[0].looks().await, people[2].looks().await], [200, 200]);
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_side_by_side_see_nothing_of_each_other() {
    let played = Played::new(options().await).await;
    // r19 and r23b are whole purchases, of which PostgreSQL names the same waits in every process.
    for rung in ["r05a", "r09", "r19", "r23b"] {
        let open = async |schedule: &'static str| {
            let body = json!({ "rung": rung, "users": 1, "processes": 2, "stock": 2, "schedule": schedule });
            played.opened(&body).await
        };
        let (one, other) = tokio::join!(open("AB"), open("BA"));
        for (state, schedule) in [(&one, "AB"), (&other, "BA")] {
            assert_eq!((&state["schedule"], &state["refused"]), (&json!(schedule), &Value::Null));
            assert_eq!(state["frames"].as_array().unwrap().len(), 2);
            assert!(state["orders"].as_array().unwrap().len() <= 1, "{state}");
        }
        for state in [one, other] {
            let at = format!("{SESSIONS}/{}", state["session"].as_str().unwrap());
            played.api.send(played.api.request("DELETE", &at)).await.is(204);
        }
    }
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seat_that_was_idle_longest_is_handed_over_and_its_holder_is_told() {
    let idle = PlayerOptions { free_after: Duration::ZERO, ..two_seats().await };
    let played = Played::new(idle).await;
    let people: Vec<Person<'_>> = (0..3).map(|_| Person::of(&played)).collect();
    people[0].asks().await.is(201);
    people[1].asks().await.is(201);
    // Only when all are taken.
    assert_eq!([people[0].looks().await, people[1].looks().await], [200, 200]);
    people[2].asks().await.is(201);
    let told = people[0].steps().await;
    let detail =
        "this session has ended, or was idle and somebody else has its seat: begin another one";
    assert_eq!(told.problem(404, "not_found").body["detail"], detail);
    assert_eq!([people[1].looks().await, people[2].looks().await], [200, 200]);
    // It begins again, on the seat that is idle longest now.
    people[0].asks().await.is(201);
    assert_eq!([people[1].looks().await, people[2].looks().await], [404, 200]);
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_nobody_uses_ends_and_another_one_is_played_on_new_servers() {
    let private = PlayerOptions::private();
    let options = PlayerOptions { ends_after: Duration::ZERO, ..private };
    let played = Played::new(options).await;
    let begun = played.opened(&json!({ "rung": "r05a" })).await;
    let ended = async || {
        let at = steps_of(&begun);
        played.api.get(at.trim_end_matches("/steps")).await.status == 404
    };
    eventually("the session has ended", ended).await;
    // It can be played again.
    let again = played.opened(&json!({ "rung": "r05a", "schedule": "AB" })).await;
    assert_eq!(again["schedule"], "AB");
    played.close().await;
}

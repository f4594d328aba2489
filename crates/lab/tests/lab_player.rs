//! One session at a time over HTTP: who plays, who has to wait, and what is left afterwards.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use seckill::pages::Site;
use seckill_lab::page::{self, Player, PlayerOptions, PlayerThread};
use serde_json::{Value, json};

use testkit::processes::{Node, descendants_of, is_alive, living_in, place, seckill, send};
use testkit::shop::api_client::Api;
use testkit::shop::world::World;
use testkit::wait::eventually;

const SESSIONS: &str = "/api/lab/sessions";

/// Where a test plays: the servers of this run, and nobody is taken over by the clock.
pub async fn options() -> PlayerOptions {
    let (postgres, redis) = testkit::servers::urls().await;
    PlayerOptions {
        database_url: Some(postgres),
        redis_url: Some(redis),
        free_after: Duration::from_secs(600),
        ends_after: Duration::from_secs(600),
    }
}

/// A server with the ladder on it.
pub struct Played {
    pub api: Api,
    thread: PlayerThread,
}

impl Played {
    pub async fn new(options: PlayerOptions) -> Self {
        let world = World::new().await;
        let (player, thread) = Player::start(options).unwrap();
        let site = Arc::new(Site::with(seckill_lab::play::site_additions(None)));
        let routes = page::routes(player, &site);
        let address = world.serve_site(site, routes, world.options(), Vec::new()).await;
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
    assert_eq!(played.opened(&at_once).await, last);
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
        json!({ "rung": "r05a", "schedule": "ABC" }),
        json!({ "rung": "r05a", "schedule": "A".repeat(65) }),
        json!({ "rung": "r05a", "users": 3 }),
        json!({ "rung": "r05a", "users": -1 }),
        json!({ "rung": "r05a", "processes": 0 }),
        json!({ "rung": "r05a", "stock": 10 }),
        json!({ "rung": "r05a", "stock": 1.5 }),
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
    for actor in [json!("C"), json!("a"), json!("AB"), json!(1), Value::Null] {
        let refused = played.api.post(&steps_of(&begun), &json!({ "actor": actor })).await;
        refused.problem(422, "invalid_request");
    }
    // A lock that never ends by itself has no lease.
    for actor in ["A", "L"] {
        let answer = played.api.post(&steps_of(&begun), &json!({ "actor": actor })).await;
        match actor {
            "A" => drop(answer.is(200)),
            _ => drop(answer.problem(422, "invalid_request")),
        }
    }
    played.api.get("/api/lab/rungs/r99").await.problem(404, "not_found");
    let file = played.api.get("/api/lab/rungs/r06_global_mutex").await;
    assert!(file.is(200).body["from_previous"].as_array().unwrap().len() > 40);
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_player_hears_who_plays_and_takes_over_a_session_that_is_idle() {
    let busy = Played::new(options().await).await;
    let first = busy.opened(&json!({ "rung": "r02" })).await;
    let refused = busy.api.post(SESSIONS, &json!({ "rung": "r05a" })).await;
    let problem = refused.problem(503, "unavailable");
    let detail = problem.body["detail"].as_str().unwrap();
    assert!(detail.starts_with("somebody else plays r02_row_lock; "), "{detail}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=600).contains(&wait), "{wait}");
    // The first player is not disturbed, and makes room.
    let at = steps_of(&first);
    busy.api.post(&at, &json!({ "actor": "A" })).await.is(200);
    let ended = busy.api.send(busy.api.request("DELETE", at.trim_end_matches("/steps"))).await;
    ended.is(204);
    busy.opened(&json!({ "rung": "r05a" })).await;
    busy.api.post(&at, &json!({ "actor": "A" })).await.problem(404, "not_found");
    busy.close().await;

    let idle = PlayerOptions { free_after: Duration::ZERO, ..options().await };
    let idle = Played::new(idle).await;
    let first = idle.opened(&json!({ "rung": "r02" })).await;
    let second = idle.opened(&json!({ "rung": "r02" })).await;
    assert_ne!(first["session"], second["session"]);
    let gone = idle.api.post(&steps_of(&first), &json!({ "actor": "A" })).await;
    gone.problem(404, "not_found");
    idle.api.post(&steps_of(&second), &json!({ "actor": "A" })).await.is(200);
    idle.close().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_or_is_killed_leaves_no_process_and_no_directory_of_a_session() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let (place, data) = (place(), place());
        let mut command = seckill(&["play", "--listen", "127.0.0.1:0"]);
        command.env("TMPDIR", place.path()).env("SECKILL_DATA_DIR", data.path().join("data"));
        let node = Node::start(&mut command).await;
        let http = reqwest::Client::new();
        // Three Redis servers beside, and a buyer in the middle of a purchase.
        let body = json!({ "rung": "r14_multi_lock", "users": 1, "stock": 2, "schedule": "AAB" });
        let url = format!("http://{}{SESSIONS}", node.address);
        let opened = http.post(url).json(&body).send().await.unwrap();
        assert_eq!(opened.status(), 201, "{}", opened.text().await.unwrap());
        let started = descendants_of(node.pid());
        assert!(started.len() >= 8, "{started:?}");
        send(node.pid(), signal);
        eventually("all that it started is gone", async || {
            started.iter().all(|pid| !is_alive(*pid)) && living_in(place.path()).is_empty()
        })
        .await;
        eventually("no directory is left", async || {
            std::fs::read_dir(place.path()).unwrap().count() == 0
        })
        .await;
    }
}

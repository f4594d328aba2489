//! `seckill lock list`, `force-release` and `tokens`: looking after locks from a shell.

use std::time::Duration;

use redisson_lock::LockError;
use serde_json::Value;

use crate::world::World;
use testkit::program::Program;

async fn json(program: &Program, arguments: &[&str]) -> Value {
    serde_json::from_str(&program.says(arguments).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_all_held_locks_and_nothing_else() {
    let (world, program, name) = World::with_program().await;
    let pattern = format!("{name}:*");
    assert_eq!(program.says(&["lock", "list", &pattern]).await, "");
    let locks = world.client();
    let named = |end: &str| format!("{name}:{end}");
    let plain = locks.lock(named("plain")).acquire().await.unwrap();
    let fair = locks.lock(named("fair")).fair().acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock(named("fair")).fair().acquire());
    world.until_queued(&named("fair"), 1).await;
    // Beside them what is no lock.
    world.ask::<()>(&["HSET", &named("map"), "visits", "7"]).await;
    world.ask::<()>(&["SET", &named("text"), "7"]).await;
    let said = program.says(&["lock", "list", &pattern]).await;
    let lines: Vec<&str> = said.lines().collect();
    let [first, second] = lines.as_slice() else { panic!("{said}") };
    assert!(first.starts_with(&named("fair")) && first.ends_with(", 1 in its queue"), "{first}");
    assert!(second.starts_with(&named("plain")) && second.contains("held once by"), "{second}");
    let listed = json(&program, &["lock", "list", &pattern, "--json"]).await;
    assert_eq!(listed["cut"], false);
    assert_eq!(listed["locks"][0]["queued"], 1);
    assert_eq!(listed["locks"][1]["owner"], plain.owner().field());
    assert_eq!(listed["locks"].as_array().unwrap().len(), 2);
    // Where there are more than may be listed that is said.
    let ran = program.run(&["lock", "list", &pattern, "--limit", "1"]).await;
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 1), "{ran:?}");
    assert!(ran.stderr.contains("there may be more"), "{ran:?}");
    let listed = json(&program, &["lock", "list", &pattern, "--limit", "1", "--json"]).await;
    assert_eq!(listed["cut"], true);
    waiter.abort();
    fair.release().await.unwrap();
    plain.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn force_release_frees_plain_and_fair_locks_and_asks_first() {
    let (world, program, name) = World::with_program().await;
    let locks = world.client();
    for lock in [locks.lock(&name), locks.lock(&name).fair()] {
        let held = lock.acquire().await.unwrap();
        // Nobody can be asked here.
        program.run(&["lock", "force-release", &name]).await.refused(2, "needs --yes");
        assert!(!lock.force_release_of("another:1").await.unwrap(), "only who was seen there");
        assert!(lock.is_locked().await.unwrap());
        let said = program.says(&["lock", "force-release", &name, "--yes"]).await;
        assert_eq!(said, format!("{name} is free now\n"));
        assert!(!lock.is_locked().await.unwrap());
        assert!(matches!(held.release().await, Err(LockError::NotHeld(_))));
        let said = program.says(&["lock", "force-release", &name, "--yes"]).await;
        assert_eq!(said, format!("{name}: free\n"));
    }
}

impl World {
    /// As if nobody had used the key for so many seconds.
    async fn make_idle(&self, key: &str, seconds: u32) {
        let dump: Vec<u8> = self.redis.query(redis::cmd("DUMP").arg(key)).await.unwrap();
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(0).arg(dump).arg("REPLACE").arg("IDLETIME").arg(seconds);
        self.redis.query::<()>(&restore).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fencing_counters_are_removed_only_where_the_next_number_is_larger() {
    const DAY: u32 = 24 * 60 * 60;
    let (world, program, name) = World::with_program().await;
    let locks = world.client();
    let named = |end: &str| format!("{name}:{end}");
    let key = |end: &str| format!("redisson_lock_token:{{{}}}", named(end));
    let mut last = 0;
    for end in ["used", "held", "old"] {
        let guard = locks.lock(named(end)).fenced().acquire().await.unwrap();
        last = guard.fence().unwrap();
        if end != "held" {
            guard.release().await.unwrap();
            continue;
        }
        // Until its holder, which nobody renews, is gone.
        std::mem::forget(guard);
    }
    // Redisson's own, and one that is ahead of the clock.
    world.ask::<()>(&["SET", &key("java"), "41"]).await;
    world.ask::<()>(&["SET", &key("ahead"), "8000000000000000"]).await;
    for end in ["held", "old", "java", "ahead"] {
        world.make_idle(&key(end), 40 * DAY).await;
    }
    let pattern = format!("{name}:*");
    let listed = json(&program, &["lock", "tokens", &pattern, "--json"]).await;
    let idle = |listed: &Value| -> Vec<(String, bool, bool)> {
        let counters = listed["counters"].as_array().unwrap().iter();
        let line = |counter: &Value| {
            let name = counter["name"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
            let is_old = counter["idle_s"].as_u64().unwrap() >= u64::from(DAY);
            (name, is_old, counter["removed"].as_bool().unwrap())
        };
        counters.map(line).collect()
    };
    let all = |removed: bool| {
        [("ahead", true), ("held", true), ("java", true), ("old", true), ("used", false)]
            .map(|(name, is_old)| (name.to_owned(), is_old, removed && name == "old"))
            .to_vec()
    };
    assert_eq!(idle(&listed), all(false));
    let remove = ["lock", "tokens", &pattern, "--remove-idle", "30d"];
    program.run(&remove).await.refused(2, "needs --yes");
    let removed = json(&program, &[&remove[..], &["--yes", "--json"]].concat()).await;
    assert_eq!(idle(&removed), all(true), "to look at them was no use of them");
    assert!(!world.exists(&key("old")).await);
    for end in ["used", "held", "java", "ahead"] {
        assert!(world.exists(&key(end)).await, "{end}");
    }
    let guard = locks.lock(named("old")).fenced().acquire().await.unwrap();
    assert!(guard.fence().unwrap() > last);
    guard.release().await.unwrap();
    assert!(!locks.forget_fencing_counter(&named("none"), Duration::ZERO).await.unwrap());
}

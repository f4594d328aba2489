//! What is at a lock's name and is no such lock: it is said, and nothing changes it.

use std::time::Duration;

use redisson_lock::{LockError, LockOptions};

use crate::world::{LONG, World, seckill, taken};

/// What other kinds of Redisson's objects, and others, leave at their names, and what it looks like.
const KINDS: [(&[&str], &str); 9] = [
    (
        &["HSET", "mode", "write", "285475da-9152-4c83-822a-67ee2f116a79:52:write", "1"],
        "RReadWriteLock",
    ),
    (&["HSET", "mode", "read", "285475da-9152-4c83-822a-67ee2f116a79:52", "2"], "RReadWriteLock"),
    (&["SET", "3"], "RSemaphore"),
    (&["SET", "text"], "a string"),
    (&["HSET", "a", "1", "b", "2"], "RMap"),
    (&["RPUSH", "a", "b"], "a list"),
    (&["SADD", "a", "b"], "a set"),
    (&["ZADD", "1", "a"], "a sorted set"),
    (&["XADD", "*", "a", "b"], "a stream"),
];

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_of_thing_is_named_and_left_alone() {
    let (world, name, plain) = World::with_locks().await;
    let fair = world.locks(LockOptions::default().fair(true));
    let program = seckill(&world.redis_url);
    for (words, looks_like) in KINDS {
        let command = [&[words[0], name.as_str()], &words[1..]].concat();
        world.ask::<()>(&["DEL", &name]).await;
        let held = taken(&plain.lock(&name)).await;
        world.ask::<()>(&["DEL", &name]).await;
        world.ask::<redis::Value>(&command).await;
        let before: Vec<u8> = world.ask(&["DUMP", &name]).await;
        let is_told = |error: &LockError| {
            let known = matches!(error, LockError::NotALock { name: of, .. } if *of == name);
            let text = error.to_string();
            assert!(known && text.contains("not a lock of this kind"), "{text}");
            assert!(text.contains(looks_like), "{looks_like}: {text}");
        };
        // A hash may have its hold yet, and has not.
        match (words[0], held.release().await.unwrap_err()) {
            ("HSET", LockError::NotHeld(_)) => {}
            (other, LockError::NotALock { .. }) if other != "HSET" => {}
            (_, error) => panic!("{looks_like}: {error}"),
        }
        for locks in [&plain, &fair] {
            let owner = locks.owner();
            for lock in [
                locks.lock(&name),
                locks.lock(&name).fenced(),
                locks.lock(&name).owned_by(&owner),
                locks.lock(&name).acknowledged_by(0, Duration::from_secs(15)),
            ] {
                is_told(&lock.try_acquire().await.unwrap_err());
                is_told(&lock.acquire().await.unwrap_err());
                is_told(&lock.acquire_within(LONG).await.unwrap_err());
            }
            is_told(&locks.lock(&name).state().await.unwrap_err());
            is_told(&locks.lock(&name).force_release().await.unwrap_err());
        }
        for (arguments, status) in [
            (&["inspect", &name][..], 1),
            (&["run", &name, "--", "true"], 69),
            (&["run", &name, "--fair", "--", "true"], 69),
            (&["force-release", &name, "--yes"], 1),
        ] {
            program.run(&[&["lock"], arguments].concat()).await.refused(status, looks_like);
        }
        assert!(!plain.held_locks(&name, 10).await.unwrap().found.contains_key(&name));
        assert_eq!(world.ask::<Vec<u8>>(&["DUMP", &name]).await, before);
        assert_eq!(world.pttl(&name).await, -1);
        assert!(world.fair_queue(&name).await.is_empty(), "nobody waits for it");
    }
    for locks in [plain, fair] {
        locks.shutdown().await;
    }
}

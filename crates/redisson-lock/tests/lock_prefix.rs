//! A client whose names begin with a prefix in Redis.

use std::time::Duration;

use redisson_lock::{LockClient, LockError, LockOptions};

use crate::world::World;

/// With what would mean something in a pattern.
const SHOPS: [&str; 2] = ["[ab]*shop:", "ashop:"];

fn names<T>(survey: redisson_lock::Survey<T>) -> Vec<String> {
    survey.found.into_keys().collect()
}

#[tokio::test]
async fn a_prefix_begins_the_name_in_redis_and_its_users_leave_it_out() {
    let world = World::new().await;
    let all = world.locks(LockOptions::default());
    let test = world.name();
    let [ours, theirs]: [LockClient; 2] = SHOPS.map(|shop| all.prefixed(&format!("{test}{shop}")));
    let held = ours.lock("nightly").fenced().acquire().await.unwrap();
    let other = theirs.lock("nightly").try_acquire().await.unwrap();
    let other = other.expect("another installation has a lock of its own");
    let whole = format!("{test}{}nightly", SHOPS[0]);
    assert_eq!(ours.lock("nightly").name(), whole);
    assert!(all.lock(&whole).is_locked().await.unwrap(), "it is another name");
    assert!(ours.lock("nightly").try_acquire().await.unwrap().is_none());
    assert_eq!(names(ours.held_locks("*", 10).await.unwrap()), ["nightly"]);
    held.release().await.unwrap();
    other.release().await.unwrap();

    assert_eq!(names(ours.fencing_counters("night*", 10).await.unwrap()), ["nightly"]);
    assert!(names(theirs.fencing_counters("*", 10).await.unwrap()).is_empty());
    assert!(ours.forget_fencing_counter("nightly", Duration::ZERO).await.unwrap());
    let empty = ours.lock("").try_acquire().await;
    assert!(matches!(empty, Err(LockError::InvalidName(0))), "{empty:?}");
}

//! A database that checks the lock's fencing token refuses a holder that slept past its lease.

use std::time::Duration;

use redisson_lock::{Guard, Lease, LockOptions};
use sqlx::PgPool;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// No renewal of it falls into the test.
const HOUR: Lease = Lease::Renewed(Duration::from_secs(3600));

/// Writes as a store that checks the fence does. Whether the write was taken.
async fn write(pool: &PgPool, value: &str, guard: &Guard) -> bool {
    let fence = i64::try_from(guard.fence().unwrap()).unwrap();
    let write = sqlx::query("update guarded set value = $1, fence = $2 where fence < $2");
    write.bind(value).bind(fence).execute(pool).await.unwrap().rows_affected() == 1
}

/// T9. The sleep is one of A's own; a pause of the whole process would do the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_slept_past_its_lease_is_refused_by_the_fence_and_by_nothing_else() {
    let world = World::new().await;
    let pool = world.database.pool();
    let create = "create table guarded (value text not null, fence bigint not null)";
    sqlx::query(create).execute(pool).await.unwrap();
    sqlx::query("insert into guarded values ('', 0)").execute(pool).await.unwrap();

    let name = format!("{}:fenced", world.database_url);
    let locks = world.locks(LockOptions::default().lease(Lease::Fixed(Duration::from_millis(500))));
    let lock = locks.lock(&name).fenced();
    let a = loop {
        let a = lock.acquire().await.unwrap();
        // A's last check.
        if !a.is_lost() {
            break a;
        }
    };
    eventually("A's lease has ended", async || lock.state().await.unwrap().is_none()).await;
    let b = lock.lease(HOUR).acquire().await.unwrap();
    assert!(b.fence() > a.fence());
    assert!(write(pool, "B's", &b).await);
    assert!(!write(pool, "A's", &a).await, "A writes what it decided before it slept");
    let value: String =
        sqlx::query_scalar("select value from guarded").fetch_one(pool).await.unwrap();
    assert_eq!(value, "B's");
    // A plain store would have taken it.
    let plain = sqlx::query("update guarded set value = $1").bind("A's").execute(pool);
    assert_eq!(plain.await.unwrap().rows_affected(), 1);
    b.release().await.unwrap();
}

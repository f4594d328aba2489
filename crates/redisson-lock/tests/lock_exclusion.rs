//! At most one is inside, in every way in which many can take a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use redisson_lock::{Lease, Lock, LockClient, MultiLock, QuorumLock};
use tokio::task::{JoinSet, yield_now};

use crate::lock_redlock::{NAME, Party, are_held, start};
use crate::world::{LONG, World};
use testkit::redis_nodes::Node;
use testkit::wait::must;

enum Entrance {
    One(Lock),
    All(MultiLock),
    Majority(QuorumLock),
}

impl Entrance {
    async fn visit(&self, work: impl Future<Output = ()>) {
        macro_rules! visit {
            ($lock:expr) => {{
                let guard = $lock.acquire().await.unwrap();
                work.await;
                guard.release().await.unwrap();
            }};
        }
        match self {
            Self::One(lock) => visit!(lock),
            Self::All(locks) => visit!(locks),
            Self::Majority(lock) => visit!(lock),
        }
    }
}

/// All come in as often as this, each in a task of its own.
async fn one_at_a_time(entrances: Vec<Entrance>, visits: usize) {
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for entrance in entrances {
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            for _ in 0..visits {
                let work = async {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                };
                entrance.visit(work).await;
            }
        });
    }
    must("all have been inside", tasks.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_tasks_of_several_clients_one_at_a_time_is_inside() {
    let (world, name, _) = World::with_locks().await;
    let clients = [(); 4].map(|()| world.client());
    let opposite = [[0, 1, 2], [2, 1, 0]];
    let all = |locks: &LockClient, task: usize| {
        let parts = opposite[task % 2].map(|part| locks.lock(format!("{name}:{part}")));
        Entrance::All(MultiLock::new(parts.to_vec()).unwrap())
    };
    type Way<'a> = &'a dyn Fn(&LockClient, usize) -> Entrance;
    let ways: [(Way<'_>, usize, usize); 3] = [
        (&|locks, _| Entrance::One(locks.lock(&name)), 80, 3),
        (&|locks, _| Entrance::One(locks.lock(&name).fair()), 12, 25),
        (&all, 4, 20),
    ];
    for (way, tasks, visits) in ways {
        let entrances = (0..tasks).map(|task| way(&clients[task % clients.len()], task));
        one_at_a_time(entrances.collect(), visits).await;
        assert!(world.is_gone(&name).await);
        world.until_listeners(&name, 0).await;
        for part in 0..3 {
            assert!(!world.exists(&format!("{name}:{part}")).await);
        }
    }
    join_all(clients.iter().map(LockClient::shutdown)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_programs_that_want_a_majority_one_at_a_time_is_inside() {
    for dead in [0, 1] {
        let mut nodes = start(3, &[]).await;
        nodes.iter_mut().take(dead).for_each(Node::kill);
        let parties = [(); 3].map(|()| Party::new(&nodes, Lease::Renewed(LONG)));
        let entrances = parties.iter().chain(&parties);
        let entrances = entrances.map(|party| Entrance::Majority(party.locks.lock(NAME)));
        one_at_a_time(entrances.collect(), 4).await;
        join_all(parties.iter().map(Party::shutdown)).await;
        assert_eq!(are_held(&nodes[dead..]).await, vec![false; 3 - dead]);
    }
}

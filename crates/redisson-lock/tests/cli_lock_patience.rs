//! `seckill lock run --wait` while Redis is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::redis_nodes::Node;
use tokio::net::{TcpListener, UnixStream};

use crate::world::{World, seckill};

/// A server that hangs up on the first callers, and passes the others on to Redis.
struct Turnstile {
    url: String,
    callers: Arc<AtomicUsize>,
}

impl Turnstile {
    async fn start(world: &World, turned_away: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let callers = Arc::new(AtomicUsize::new(0));
        let socket = world.redis_url.strip_prefix("redis+unix://").unwrap().to_owned();
        let turnstile = Self { url, callers: Arc::clone(&callers) };
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                if callers.fetch_add(1, Ordering::SeqCst) >= turned_away {
                    let mut redis = UnixStream::connect(&socket).await.unwrap();
                    tokio::spawn(async move {
                        _ = tokio::io::copy_bidirectional(&mut caller, &mut redis).await;
                    });
                }
            }
        });
        turnstile
    }

    fn callers(&self) -> usize {
        self.callers.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_outlasts_an_outage_that_is_there_from_the_first_try_on() {
    let world = World::new().await;
    for more in [&["--wait", "20s"][..], &["--wait", "20s", "--fair"]] {
        let turnstile = Turnstile::start(&world, 3).await;
        let program = seckill(&turnstile.url);
        let name = world.name();
        let said = [&["lock", "run", &name], more, &["--", "echo", "in"]].concat();
        assert_eq!(program.says(&said).await, "in\n");
        assert!(turnstile.callers() > 3);
        assert!(!world.exists(&name).await);
    }
}

/// The acquire was sent and not answered: it may be granted when Redis goes on. It is given back then.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_outlasts_a_redis_that_sleeps() {
    for more in [&["--wait", "20s"][..], &["--wait", "20s", "--fair"]] {
        let node = Node::start(&[]).await;
        let program = seckill(&node.url());
        let run = [&["lock", "run", "n"], more, &["--", "echo", "in"]].concat();
        node.command::<()>(&["CLIENT", "PAUSE", "1500"]).await;
        assert_eq!(program.says(&run).await, "in\n");
        assert_eq!(node.command::<i64>(&["EXISTS", "n"]).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_before_the_outage_says_so_and_no_wait_tries_once() {
    let world = World::new().await;
    for (more, words, tries) in [
        (
            &["--wait", "300ms"][..],
            "could not be taken within 300ms: Redis is unavailable",
            2..=usize::MAX,
        ),
        (&["--wait", "0s"], "could not be taken: Redis is unavailable", 1..=1),
        (&[], "could not be taken: Redis is unavailable", 1..=1),
    ] {
        let turnstile = Turnstile::start(&world, usize::MAX).await;
        let program = seckill(&turnstile.url);
        let name = world.name();
        let run = [&["lock", "run", &name], more, &["--", "true"]].concat();
        program.run(&run).await.refused(69, words);
        let callers = turnstile.callers();
        assert!(tries.contains(&callers), "{more:?}: {callers}");
    }
}

//! What the tests of a run keep for each other: worlds, each of which one test has at a time, and the cells that were
//! played.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use faults::ZooKeeperNode;
use futures_util::FutureExt;
use ladder::{LockKind, Rung, Scenario};
use seckill_lab::{Cell, World, replay};
use testkit::needs::needs;
use tokio::sync::OnceCell;

type Worlds = Mutex<Vec<World>>;

static WORLDS: Worlds = Worlds::new(Vec::new());

/// In whose databases the settings are those of games.
static WORLDS_OF_GAMES: Worlds = Worlds::new(Vec::new());

type Cells = BTreeMap<(&'static str, Scenario), Arc<OnceCell<Cell>>>;

static CELLS: Mutex<Cells> = Mutex::new(Cells::new());

/// A world that nobody else has until it is dropped. Then it is the next test's, unless this one fails: nothing is known
/// of its world.
pub struct KeptWorld {
    world: Option<World>,
    kept_in: &'static Worlds,
}

impl Deref for KeptWorld {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().unwrap()
    }
}

impl KeptWorld {
    async fn of(kept_in: &'static Worlds) -> Self {
        let kept = kept_in.lock().unwrap().pop();
        let world = match kept {
            Some(world) => world,
            None => new_lab().await,
        };
        Self { world: Some(world), kept_in }
    }
}

impl Drop for KeptWorld {
    fn drop(&mut self) {
        let world = self.world.take().unwrap();
        // What a static has is never dropped, and so nobody would clear up behind a ZooKeeper. Only where there is none
        // the answer is there at once. The databases of a world that is not kept are left to the servers of the run.
        let has_zookeeper = world.zookeeper_version().now_or_never() != Some(None);
        if !has_zookeeper && !std::thread::panicking() {
            self.kept_in.lock().unwrap().push(world);
        }
    }
}

/// A lab in which nobody has played: the schemas of cells of isolation stay, and are named by their numbers.
pub async fn new_lab() -> World {
    let (postgres, redis) = testkit::servers::urls().await;
    World::open(Some(postgres), Some(redis)).await.unwrap()
}

/// The lab, on the servers of this run.
pub async fn lab() -> KeptWorld {
    KeptWorld::of(&WORLDS).await
}

/// The same for games.
pub async fn lab_of_games() -> KeptWorld {
    KeptWorld::of(&WORLDS_OF_GAMES).await
}

/// Whether this machine has what the lock of `rung` needs.
pub fn has_lock_of(rung: &Rung) -> bool {
    rung.lock != LockKind::ZooKeeper || needs("ZooKeeper", ZooKeeperNode::find()).is_some()
}

/// A cell, as whoever asked for it first has played it.
pub async fn played(rung: &'static Rung, scenario: Scenario) -> Cell {
    let cell = Arc::clone(CELLS.lock().unwrap().entry((rung.id, scenario)).or_default());
    let play = async || {
        let lab = lab().await;
        replay(&lab, rung, scenario).await
    };
    cell.get_or_init(play).await.clone()
}

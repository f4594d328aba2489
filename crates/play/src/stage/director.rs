//! Runs the show. There is one at a time: whoever presses the button meanwhile is shown that one.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rand::RngExt;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::seller::{CrowdSender, ShowCrowd, ShowSeller};
use super::show::{CrowdKind, Show, ShowFailure, ShowHalf, ShowPhase};
use super::watchers::Watchers;
use ladder::Rung;
use seckill::http::App;

/// How often each buyer tries in a rush.
const ATTEMPTS: usize = 3;
/// Of so many buyers in a rush one finds a voucher.
const BUYERS_A_VOUCHER: u32 = 10;
/// The slow crowd is so much smaller than a rush, and two in five of it find a voucher: who logs in during
/// the countdown has time to buy.
const SLOWER: u32 = 40;
const SLOW_STOCK: (u32, u32) = (2, 5);
/// The crowd that meets two servers is so much smaller than a rush, and four in five of it find a voucher: there
/// is time to kill one. Each buyer tries at both.
const SMALLER: u32 = 10;
const STOCK_OF_TWO: (u32, u32) = (4, 5);
const SERVERS: usize = 2;
/// Before a rush begins, here and at a rung.
const COUNTDOWN: Duration = Duration::from_secs(2);
const COUNTDOWN_OF_RUNG: Duration = Duration::from_secs(3);
/// A show that takes longer is broken off: there is one at a time.
const SHOW_WITHIN: Duration = Duration::from_secs(300);
/// How long the end waits for a show that is broken off.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// How large the crowds are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShowSize {
    /// Buyers of a rush.
    pub(crate) users: u32,
    /// The time over which a slow crowd comes.
    pub(crate) slow: Duration,
}

impl ShowSize {
    /// The largest crowd.
    pub(crate) const LARGEST: u32 = 20_000;

    pub(super) fn crowd(self, kind: CrowdKind, seed: u64) -> ShowCrowd {
        let stock = |users: u32| users.max(1).cast_signed();
        match kind {
            CrowdKind::Rush => ShowCrowd {
                kind,
                users: self.users,
                stock: stock(self.users / BUYERS_A_VOUCHER),
                attempts: ATTEMPTS,
                seed,
                countdown: COUNTDOWN,
                arrive_within: None,
            },
            CrowdKind::Slow => {
                let users = (self.users / SLOWER).max(1);
                ShowCrowd {
                    kind,
                    users,
                    stock: stock(users * SLOW_STOCK.0 / SLOW_STOCK.1),
                    attempts: 1,
                    seed,
                    // Time to log in.
                    countdown: self.slow * 2 / 3,
                    arrive_within: Some(self.slow),
                }
            }
            CrowdKind::Failover => {
                let users = (self.users / SMALLER).max(1);
                ShowCrowd {
                    kind,
                    users,
                    stock: stock(users * STOCK_OF_TWO.0 / STOCK_OF_TWO.1),
                    attempts: SERVERS,
                    seed,
                    countdown: COUNTDOWN,
                    arrive_within: Some(self.slow / 2),
                }
            }
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewShow {
    pub(super) crowd: CrowdKind,
    pub(super) against: Option<&'static Rung>,
    /// What the voucher is called in the shop.
    pub(super) title: &'static str,
}

/// The stage. One a server.
pub(crate) struct ShowDirector {
    pub(super) watchers: Arc<Watchers>,
    app: App,
    sender: CrowdSender,
    size: ShowSize,
    runtime: Handle,
    runs: AtomicU64,
    under_way: Mutex<UnderWay>,
}

/// The task of the show, and whether there are to be no more.
#[derive(Default)]
struct UnderWay {
    show: Option<AbortOnDropHandle<()>>,
    is_closed: bool,
}

impl std::fmt::Debug for ShowDirector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ShowDirector").finish_non_exhaustive()
    }
}

impl ShowDirector {
    /// A stage, whose shows run on the runtime on which this is called.
    pub(crate) fn new(app: App, sender: CrowdSender, size: ShowSize) -> Self {
        Self {
            watchers: Arc::new(Watchers::new()),
            app,
            sender,
            size,
            runtime: Handle::current(),
            runs: AtomicU64::new(1),
            under_way: Mutex::default(),
        }
    }

    /// How large its crowds are.
    pub(crate) const fn size(&self) -> ShowSize {
        self.size
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a show, or finds the one that is under way, and returns its number; `None`: the server stops.
    pub(super) fn start(&self, new: NewShow) -> Option<u64> {
        let mut under_way = self.under_way();
        if under_way.is_closed {
            return None;
        }
        let is_running = under_way.show.as_ref().is_some_and(|show| !show.is_finished());
        if is_running && self.watchers.look(|show| show.phase.is_under_way()) {
            return Some(self.watchers.look(|show| show.number));
        }
        let before = self.watchers.look(Show::clone);
        let kept = new.against.and_then(|_| before.finished_rush().cloned());
        let seed = if kept.is_some() { before.seed } else { rand::rng().random() };
        let number = before.number + 1;
        let crowd = self.size.crowd(new.crowd, seed);
        let is_kept = kept.is_some();
        let ours = kept.unwrap_or_else(|| self.next_half(crowd, None));
        self.watchers.update(|show| {
            *show = Show {
                number,
                crowd: new.crowd,
                phase: ShowPhase::Preparing,
                seed,
                halves: vec![ours],
                ..Show::none()
            };
        });
        let showing = self.show(new, crowd, is_kept);
        under_way.show = Some(AbortOnDropHandle::new(self.runtime.spawn(showing)));
        Some(number)
    }

    fn next_half(&self, crowd: ShowCrowd, rung: Option<&'static str>) -> ShowHalf {
        crowd.half(self.runs.fetch_add(1, Ordering::Relaxed), rung)
    }

    /// The whole show, as a future of its own; where the half of this server is kept, only that of the rung.
    fn show(
        &self,
        new: NewShow,
        crowd: ShowCrowd,
        is_kept: bool,
    ) -> impl Future<Output = ()> + Send + 'static {
        let watchers = Arc::clone(&self.watchers);
        let (app, sender) = (self.app.clone(), self.sender.clone());
        let seller = ShowSeller { app, sender, watchers: Arc::clone(&watchers) };
        let beside = new.against.map(|rung| (rung, self.next_half(crowd, Some(rung.id))));
        let told = Arc::clone(&watchers);
        let acting = async move {
            if !is_kept {
                seller.sell_here(crowd, new.title).await?;
            }
            if let Some((rung, half)) = beside {
                told.update(|show| {
                    show.phase = ShowPhase::Preparing;
                    show.halves.push(half);
                });
                let crowd = ShowCrowd { countdown: COUNTDOWN_OF_RUNG, ..crowd };
                seller.sell_by_rung(crowd, rung).await?;
            }
            Ok(())
        };
        async move {
            let failure = failure_of(acting).await;
            watchers.update(|show| {
                show.phase = if failure.is_some() { ShowPhase::Failed } else { ShowPhase::Ended };
                (show.failure, show.begins_at) = (failure, None);
            });
        }
    }

    /// Ends all streams, and breaks the show off.
    pub(crate) fn stop(&self) {
        self.watchers.close();
        let mut under_way = self.under_way();
        under_way.is_closed = true;
        if let Some(show) = &under_way.show {
            show.abort();
        }
    }

    /// Waits until the show that was broken off has let go of what it had.
    pub(crate) async fn close(&self) {
        let show = self.under_way().show.take();
        if let Some(show) = show {
            let _ = timeout(CLOSES_WITHIN, show).await;
        }
    }
}

/// Why a show came to no end. A panic is an end like any other.
async fn failure_of(acting: impl Future<Output = Result<(), ShowFailure>>) -> Option<ShowFailure> {
    match AssertUnwindSafe(timeout(SHOW_WITHIN, acting)).catch_unwind().await {
        Ok(Ok(acted)) => acted.err(),
        Ok(Err(_elapsed)) => Some(ShowFailure::without_detail("timed_out")),
        Err(_panic) => Some(ShowFailure::without_detail("defect")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_show_that_takes_too_long_or_panics_has_failed() {
        let lasting = async |time: Duration| {
            failure_of(async {
                sleep(time).await;
                Ok(())
            })
            .await
        };
        let failed = |code| Some(ShowFailure::without_detail(code));
        assert_eq!(lasting(SHOW_WITHIN - Duration::from_millis(1)).await, None);
        // What ends at the bound has ended: a time-out looks at the work first.
        assert_eq!(lasting(SHOW_WITHIN).await, None);
        assert_eq!(lasting(SHOW_WITHIN + Duration::from_millis(1)).await, failed("timed_out"));
        assert_eq!(failure_of(async { panic!("a defect") }).await, failed("defect"));
        let refused = async { Err(ShowFailure::without_detail("crowd_died")) };
        assert_eq!(failure_of(refused).await, failed("crowd_died"));
    }

    #[test]
    fn the_smallest_crowds_have_a_buyer_and_a_voucher() {
        for (users, rush, slow) in
            [(20_000, (20_000, 2_000), (500, 200)), (400, (400, 40), (10, 4)), (1, (1, 1), (1, 1))]
        {
            let size = ShowSize { users, slow: Duration::from_secs(30) };
            let crowd = |kind| {
                let crowd = size.crowd(kind, 1);
                (crowd.users, crowd.stock)
            };
            assert_eq!((crowd(CrowdKind::Rush), crowd(CrowdKind::Slow)), (rush, slow));
        }
    }
}

//! Tells all pages what happens on the stage. Nothing is queued for a page: what it has been told is
//! remembered for it, and it is told the difference to what is so now. So a slow one loses nothing, and one
//! that comes late, or again, is told all of it.

use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::show::{CrowdKind, Dot, Show, ShowFailure, ShowHalf, ShowPhase};
use super::verdict::ShowVerdict;
use seckill::model::VoucherId;

/// After so much silence a page is told that somebody is there: so each notices that the other is gone.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// When a page whose stream ended opens another one.
const RETRY: &str = "retry: 1000\n";

/// The show, for those who watch it.
#[derive(Debug)]
pub(super) struct Watchers {
    shows: watch::Sender<Show>,
    closed: CancellationToken,
}

impl Watchers {
    pub(super) fn new() -> Self {
        Self { shows: watch::channel(Show::none()).0, closed: CancellationToken::new() }
    }

    /// One more.
    pub(super) fn admit(&self) -> Watcher {
        let mut shows = self.shows.subscribe();
        shows.mark_changed();
        let closed = self.closed.clone();
        Watcher { shows, seen: Vec::new(), is_greeted: false, closed }
    }

    /// The show as it is.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Show) -> T) -> T {
        look(&self.shows.borrow())
    }

    /// Changes the show, and tells everybody.
    pub(super) fn update(&self, change: impl FnOnce(&mut Show)) {
        self.shows.send_modify(change);
    }

    /// Has one of two servers killed. Returns whether there are two that sell.
    pub(super) fn kill(&self) -> bool {
        let mut is_killed = false;
        self.update(|show| is_killed = show.kill());
        is_killed
    }

    /// Waits until somebody has one of two servers killed.
    pub(super) async fn killed(&self) {
        let is_killed =
            |show: &Show| show.halves.last().is_some_and(|half| half.killed_at.is_some());
        // The sender of the shows is here.
        let _ = self.shows.subscribe().wait_for(is_killed).await;
    }

    /// Ends all streams: the server stops.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }
}

/// What a page was told of a half.
#[derive(Debug)]
struct SeenHalf {
    run: u64,
    dots: Vec<Dot>,
    points: usize,
}

/// One page's stream.
#[derive(Debug)]
pub(super) struct Watcher {
    shows: watch::Receiver<Show>,
    seen: Vec<SeenHalf>,
    is_greeted: bool,
    closed: CancellationToken,
}

impl Watcher {
    /// What to send next; `None`: the server stops.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let changed = tokio::select! {
            () = self.closed.cancelled() => return None,
            changed = timeout(HEARTBEAT_EVERY, self.shows.changed()) => changed,
        };
        match changed {
            Ok(Ok(())) => Some(self.event()),
            Ok(Err(_closed)) => None,
            Err(_elapsed) => Some(Bytes::from_static(b"event: alive\ndata: {}\n\n")),
        }
    }

    fn event(&mut self) -> Bytes {
        let show = self.shows.borrow_and_update().clone();
        let seen = &mut self.seen;
        seen.truncate(show.halves.len());
        let halves = show.halves.iter().enumerate();
        let halves = halves.map(|(at, half)| {
            if seen.get(at).is_none_or(|seen| seen.run != half.run) {
                seen.truncate(at);
                seen.push(SeenHalf { run: half.run, dots: Vec::new(), points: 0 });
            }
            seen[at].told(half)
        });
        let event = ShowEvent {
            number: show.number,
            crowd: show.crowd,
            phase: show.phase,
            begins_in_ms: show
                .begins_at
                .map(|at| at.saturating_duration_since(Instant::now()).as_millis() as u64),
            halves: halves.collect(),
            failure: show.failure,
        };
        let Ok(json) = serde_json::to_string(&event) else { unreachable!("it is always JSON") };
        let retry = if self.is_greeted { "" } else { RETRY };
        self.is_greeted = true;
        format!("{retry}event: show\ndata: {json}\n\n").into()
    }
}

/// The `data` of an event.
#[derive(Debug, Serialize)]
struct ShowEvent {
    number: u64,
    crowd: CrowdKind,
    phase: ShowPhase,
    begins_in_ms: Option<u64>,
    failure: Option<ShowFailure>,
    halves: Vec<HalfEvent>,
}

/// A half: its figures, and what has changed in the dots and points.
#[derive(Debug, Serialize)]
struct HalfEvent {
    /// Whether it is told from the beginning.
    is_whole: bool,
    rung: Option<&'static str>,
    users: usize,
    stock: u64,
    voucher_id: Option<VoucherId>,
    total: u64,
    done: u64,
    left: i64,
    others: i64,
    killed_at: Option<i64>,
    verdict: Option<ShowVerdict>,
    /// Buyers, by index.
    refused: Vec<u32>,
    bought: Vec<u32>,
    wrong: Vec<u32>,
    /// What is new behind the points that were told.
    points: Vec<[u64; 2]>,
}

impl SeenHalf {
    /// What is to be told of `half`, which is told then.
    fn told(&mut self, half: &ShowHalf) -> HalfEvent {
        let is_whole = self.dots.is_empty();
        self.dots.resize(half.dots.len(), Dot::Waiting);
        let (mut refused, mut bought, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (seen, now)) in self.dots.iter_mut().zip(&half.dots).enumerate() {
            if seen != now {
                *seen = *now;
                match now {
                    Dot::Waiting => {}
                    Dot::Refused => refused.push(at as u32),
                    Dot::Bought => bought.push(at as u32),
                    Dot::Wrong => wrong.push(at as u32),
                }
            }
        }
        let points = half.points().get(self.points..).unwrap_or_default().to_vec();
        self.points += points.len();
        HalfEvent {
            is_whole,
            rung: half.rung,
            users: half.dots.len(),
            stock: half.stock,
            voucher_id: half.voucher,
            total: half.total,
            done: half.done,
            left: half.left(),
            others: half.others,
            killed_at: half.killed_at,
            verdict: half.verdict.clone(),
            refused,
            bought,
            wrong,
            points,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use load::crowd::BuyersTold;
    use load::rush::BuyerChanges;
    use serde_json::Value;

    async fn heard(watcher: &mut Watcher) -> Value {
        let event = watcher.next().await.unwrap();
        let text = String::from_utf8(event.to_vec()).unwrap();
        serde_json::from_str(text.split_once("data: ").unwrap().1.trim_end()).unwrap()
    }

    fn buys(watchers: &Watchers, buyers: std::ops::Range<u32>) {
        let changes = BuyerChanges { bought: buyers.clone().collect(), ..Default::default() };
        let done = u64::from(buyers.end);
        let told = BuyersTold { at_ms: done * 50, done, ordered: done, changes };
        watchers.update(|show| show.half().hear(&told));
    }

    #[tokio::test]
    async fn whoever_is_slow_or_late_is_told_all_of_it_once() {
        let watchers = Watchers::new();
        let (mut quick, mut slow) = (watchers.admit(), watchers.admit());
        assert_eq!(heard(&mut quick).await["phase"], "idle");
        let half = ShowHalf::new(7, None, 100, 100, 1);
        watchers.update(|show| (show.number, show.halves) = (1, vec![half]));
        for (begin, whole) in [(0, true), (10, false), (20, false)] {
            buys(&watchers, begin..begin + 10);
            let told = heard(&mut quick).await;
            let half = &told["halves"][0];
            assert_eq!(
                (&half["is_whole"], half["bought"].as_array().unwrap().len()),
                (&whole.into(), 10)
            );
        }
        // The one that has not read yet, and one that comes now: one event, and all is in it.
        let mut late = watchers.admit();
        for watcher in [&mut slow, &mut late] {
            let told = heard(watcher).await;
            let half = &told["halves"][0];
            assert_eq!(
                (&half["is_whole"], half["bought"].as_array().unwrap().len()),
                (&true.into(), 30)
            );
            assert_eq!((&half["left"], &half["users"]), (&70.into(), &100.into()));
            assert_eq!(half["points"].as_array().unwrap().len(), 10);
            let none = timeout(Duration::ZERO, watcher.shows.changed()).await;
            assert!(none.is_err(), "there is nothing more");
        }
        // Another half in its place begins anew.
        watchers.update(|show| show.halves = vec![ShowHalf::new(8, None, 5, 1, 1)]);
        assert_eq!(heard(&mut quick).await["halves"][0]["is_whole"], true);
        watchers.close();
        assert!(quick.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_silence_a_page_hears_that_somebody_is_there() {
        let watchers = Watchers::new();
        let mut watcher = watchers.admit();
        watcher.next().await.unwrap();
        assert_eq!(&*watcher.next().await.unwrap(), b"event: alive\ndata: {}\n\n");
    }

    #[tokio::test]
    async fn one_that_never_reads_holds_up_nobody_and_nothing_grows_for_it() {
        let watchers = Watchers::new();
        let (mut deaf, mut quick) = (watchers.admit(), watchers.admit());
        watchers.update(|show| show.halves = vec![ShowHalf::new(1, None, 20_000, 20_000, 1)]);
        for begin in (0..20_000).step_by(100) {
            buys(&watchers, begin..begin + 100);
            assert!(
                heard(&mut quick).await["halves"][0]["bought"].as_array().unwrap().len() >= 100
            );
        }
        let told = deaf.next().await.unwrap();
        assert!(told.len() < 200_000, "{}", told.len());
        assert!(timeout(Duration::ZERO, deaf.shows.changed()).await.is_err());
    }
}

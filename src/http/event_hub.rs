//! What is sent to all who watch the sales. One task looks at memory twice a second while somebody
//! listens, and writes each change once, however many listen. Nothing is queued for a listener: a slow
//! one gets the newest state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::query::PageLimit;
use super::voucher_pages::{VoucherBody, VoucherPages};
use crate::model::{Clock, SaleStatus, Voucher, VoucherId};
use crate::purchase::Purchases;
use crate::purchase::sales::Sale;
use crate::store::StoreError;

/// No voucher has more than two events a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A voucher, as it was when it had changed.
#[derive(Debug, Serialize, ToSchema)]
pub struct VoucherEvent<'a> {
    #[serde(flatten)]
    #[schema(inline)]
    voucher: &'a Voucher,
    /// Where the sale stands.
    status: SaleStatus,
    /// When it had changed, by the clock that sales go by.
    now: DateTime<Utc>,
}

/// What a stream is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// The vouchers of the list's first page.
    FirstPage,
    /// One voucher.
    Voucher(VoucherId),
}

/// A voucher as it was sent last.
#[derive(Debug)]
struct Sent {
    body: VoucherBody,
    event: Bytes,
    version: u64,
}

/// The newest events of a topic, one a voucher.
#[derive(Debug, Default)]
pub(super) struct Newest {
    vouchers: Vec<Sent>,
    version: u64,
}

impl Newest {
    /// The oldest event that is newer than `version`, which the listener was sent last.
    pub(super) fn after(&self, version: u64) -> Option<(u64, Bytes)> {
        let missed = self.vouchers.iter().filter(|sent| sent.version > version);
        missed.min_by_key(|sent| sent.version).map(|sent| (sent.version, sent.event.clone()))
    }

    /// Takes in what is known at `now`. Returns whether anything is new.
    fn update(&mut self, bodies: impl Iterator<Item = VoucherBody>, now: DateTime<Utc>) -> bool {
        let before = self.version;
        let mut known: HashMap<VoucherId, Sent> =
            self.vouchers.drain(..).map(|sent| (sent.body.voucher.id, sent)).collect();
        for body in bodies {
            let sent = match known.remove(&body.voucher.id) {
                Some(sent) if sent.body == body => sent,
                _ => {
                    self.version += 1;
                    let VoucherBody { voucher, status } = &body;
                    let event = event_text(&VoucherEvent { voucher, status: *status, now });
                    Sent { event, body, version: self.version }
                }
            };
            self.vouchers.push(sent);
        }
        self.version > before
    }
}

fn bodies_of(sales: &[Arc<Sale>], now: DateTime<Utc>) -> impl Iterator<Item = VoucherBody> {
    sales.iter().map(move |sale| VoucherBody::of_sale(sale, now))
}

/// An event as it is sent.
fn event_text(event: &VoucherEvent<'_>) -> Bytes {
    let Ok(json) = serde_json::to_string(event) else { unreachable!("a voucher is always JSON") };
    format!("event: voucher\ndata: {json}\n\n").into()
}

/// Streams by topic, and the task that looks.
#[derive(Debug, Default)]
struct Topics {
    newest: HashMap<Topic, watch::Sender<Newest>>,
    is_looking: bool,
    is_closed: bool,
}

/// Tells listeners what changes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventHub(Arc<Hub>);

#[derive(Debug)]
struct Hub {
    pages: Arc<VoucherPages>,
    purchases: Arc<Purchases>,
    topics: Mutex<Topics>,
}

impl EventHub {
    /// A hub to which nobody listens yet.
    pub fn new(pages: &Arc<VoucherPages>, purchases: &Arc<Purchases>) -> Self {
        Self(Arc::new(Hub {
            pages: Arc::clone(pages),
            purchases: Arc::clone(purchases),
            topics: Mutex::default(),
        }))
    }

    /// What is known of `topic` now, and then whatever changes, until the hub is closed. `Ok(None)`:
    /// there is no such voucher.
    pub(super) async fn subscribe(
        &self,
        topic: Topic,
    ) -> Result<Option<watch::Receiver<Newest>>, StoreError> {
        let sales = self.0.look_at(topic).await?;
        if sales.is_empty() && topic != Topic::FirstPage {
            return Ok(None);
        }
        let now = self.0.purchases.clock().now();
        let mut topics = self.0.topics();
        if topics.is_closed {
            return Ok(Some(watch::channel(Newest::default()).1));
        }
        let newest = topics.newest.entry(topic).or_insert_with(|| {
            let mut newest = Newest::default();
            newest.update(bodies_of(&sales, now), now);
            watch::channel(newest).0
        });
        let receiver = newest.subscribe();
        if !topics.is_looking {
            topics.is_looking = true;
            tokio::spawn(look(Arc::downgrade(&self.0)));
        }
        Ok(Some(receiver))
    }

    /// Ends all streams, and lets no more begin: the server stops.
    pub fn close(&self) {
        let mut topics = self.0.topics();
        topics.is_closed = true;
        topics.newest.clear();
    }
}

impl Hub {
    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sales of a topic, from memory, which is less than a second old.
    async fn look_at(&self, topic: Topic) -> Result<Vec<Arc<Sale>>, StoreError> {
        let ids = match topic {
            Topic::FirstPage => self.pages.get(None, PageLimit::default()).await?.ids,
            Topic::Voucher(id) => [id].into(),
        };
        let sales = join_all(ids.iter().map(|id| self.purchases.sale(*id))).await;
        sales.into_iter().filter_map(Result::transpose).collect()
    }

    /// Looks once at each topic that has listeners. Returns whether there are any.
    async fn update_all(&self) -> bool {
        let topics: Vec<Topic> = {
            let mut topics = self.topics();
            topics.newest.retain(|_, newest| newest.receiver_count() > 0);
            topics.is_looking = !topics.newest.is_empty();
            topics.newest.keys().copied().collect()
        };
        let looked = join_all(topics.iter().map(|topic| self.look_at(*topic))).await;
        let now = self.purchases.clock().now();
        let all = self.topics();
        for (topic, sales) in topics.iter().zip(looked) {
            // While the database does not answer, nothing is known to have changed.
            let (Some(newest), Ok(sales)) = (all.newest.get(topic), sales) else { continue };
            newest.send_if_modified(|newest| newest.update(bodies_of(&sales, now), now));
        }
        !topics.is_empty()
    }
}

/// Looks until nobody listens any more.
async fn look(hub: Weak<Hub>) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(hub) = hub.upgrade() else { return };
        if !hub.update_all().await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vouchers 1 and 2, with so many left of each.
    fn bodies(stocks: [i32; 2]) -> impl Iterator<Item = VoucherBody> {
        let ids = (1..).filter_map(VoucherId::new);
        stocks.into_iter().zip(ids).map(|(stock, id)| {
            let voucher = Voucher { id, stock, initial_stock: 9, ..Voucher::example() };
            VoucherBody::at(voucher, DateTime::UNIX_EPOCH)
        })
    }

    /// What a listener who was sent `version` is sent next.
    fn missed(newest: &Newest, mut version: u64) -> Vec<String> {
        let mut missed = Vec::new();
        while let Some((next, event)) = newest.after(version) {
            assert!(next > version);
            version = next;
            missed.push(String::from_utf8_lossy(&event).into_owned());
        }
        missed
    }

    #[test]
    fn however_much_a_listener_missed_it_is_sent_each_voucher_once_as_it_is() {
        let (mut newest, now) = (Newest::default(), DateTime::UNIX_EPOCH);
        assert!(newest.update(bodies([9, 9]), now));
        assert_eq!(missed(&newest, 0).len(), 2);
        let sent = newest.version;
        // What did not change is no event.
        assert!(!newest.update(bodies([9, 9]), now));
        for left in (0..8).rev() {
            assert!(newest.update(bodies([left, 9]), now));
        }
        for (version, expected) in [(0, 2), (sent, 1), (newest.version, 0)] {
            let events = missed(&newest, version);
            assert_eq!(events.len(), expected, "{events:?}");
            assert!(version == newest.version || events[expected - 1].contains("\"stock\":0,"));
        }
    }
}

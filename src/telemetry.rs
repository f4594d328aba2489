//! Metrics: every name and label value. Those of the lock are in its crate.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds of the latency histogram, in seconds.
const LATENCY_BOUNDS_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Upper bounds of the histogram of batches, in orders.
const BATCH_BOUNDS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The metrics of the server: name, kind, unit if it has one, and what it counts. So none is without a description.
macro_rules! metrics {
    ($($name:ident = $text:literal, $describe:ident($($unit:ident)?), $what:literal;)*) => {
        /// The names of all metrics.
        #[allow(missing_docs)]
        pub mod name {
            $(pub const $name: &str = $text;)*
        }

        /// All of them.
        pub const NAMES: &[&str] = &[$(name::$name),*];

        fn describe() {
            $(metrics::$describe!(name::$name, $(metrics::Unit::$unit,)? $what);)*
            redisson_lock::metric::describe();
        }
    };
}

metrics! {
    REQUEST_SECONDS = "seckill_http_request_seconds", describe_histogram(Seconds),
        "From a request's head to its answer.";
    PURCHASES = "seckill_purchases_total", describe_counter(), "Attempts to buy, by outcome.";
    PURCHASES_IN_FLIGHT = "seckill_purchases_in_flight", describe_gauge(), "Purchases under way.";
    PURCHASES_LIMIT = "seckill_purchases_limit", describe_gauge(), "How many purchases may be under way.";
    ORDER_QUEUE_DEPTH = "seckill_order_queue_depth", describe_gauge(), "Orders that wait for a transaction.";
    ORDER_BATCHES_IN_FLIGHT = "seckill_order_batches_in_flight", describe_gauge(),
        "Transactions with orders in flight.";
    SERVER_INFO = "seckill_server_info", describe_gauge(), "1; the labels say which server this is.";
    UPTIME_SECONDS = "seckill_uptime_seconds", describe_gauge(Seconds),
        "Since the process began, at the moment of this text: the time between two texts.";
    EVENT_STREAMS = "seckill_event_streams", describe_gauge(), "Streams of events that are open.";
    LOGIN_REFUSED = "seckill_login_refused_total", describe_counter(),
        "Codes asked for or tried that a limit refused.";
    RATE_LIMITED = "seckill_rate_limited_total", describe_counter(),
        "Requests refused with 429, by the rate of their buyer, the buyer's share, or the rate of their address.";
    UNTRUSTED_FORWARDED = "seckill_untrusted_forwarded_total", describe_counter(),
        "Requests with X-Forwarded-For or Forwarded from an address that is no trusted proxy.";
    BREAKER_TRIPPED = "seckill_breaker_tripped_total", describe_counter(),
        "How often orders of a voucher could not be written.";
    ORDER_BATCH_SIZE = "seckill_order_batch_size", describe_histogram(), "Orders in a transaction.";
    ORDER_BATCH_RESENT = "seckill_order_batch_resent_total", describe_counter(),
        "Transactions sent again: the answer was lost.";
    ORDERS_EXPIRED = "seckill_orders_expired_total", describe_counter(),
        "Orders cancelled because their time to pay was over.";
    PAYMENTS = "seckill_payments_total", describe_counter(),
        "What the payment gateway said, by what became of it.";
    REFUNDS = "seckill_refunds_total", describe_counter(),
        "Refunds that the payment gateway was asked for, by its answer.";
    REFUND_OLDEST_AGE = "seckill_refund_oldest_age_seconds", describe_gauge(Seconds),
        "Since when the oldest refund waits for the payment gateway; 0 where none does.";
    EVENT_OLDEST_AGE = "seckill_event_oldest_age_seconds", describe_gauge(Seconds),
        "Since when the oldest event waits that the receiver of events has not taken; 0 where none does.";
    PAYMENTS_UNMATCHED = "seckill_payments_unmatched", describe_gauge(),
        "Unmatched payments that nobody has resolved.";
    PAYMENTS_PARTLY_RETURNED = "seckill_payments_partly_returned", describe_gauge(),
        "Payments of which a part went back that nobody had asked for.";
    CLOCK_OFFSET = "seckill_database_clock_offset_seconds", describe_gauge(Seconds),
        "How far the database's clock is ahead of this machine's.";
    CLOCK_ERROR = "seckill_database_clock_error_seconds", describe_gauge(Seconds),
        "How wrong that may have been when it was learnt: half a round trip.";
    DATABASE_DURABLE = "seckill_database_durable", describe_gauge(), "Whether fsync and full_page_writes are on.";
}

/// The outcome of a purchase that could not be judged now.
pub const UNAVAILABLE: &str = "unavailable";
/// The outcome of a purchase that met a defect.
pub const INTERNAL_ERROR: &str = "internal_error";

/// The target of the spans of a request and of the steps of a purchase.
pub const SPANS: &str = "seckill::request";

/// How often the log names somebody who is limited.
const NAME_EVERY: Duration = Duration::from_secs(60);

/// How often histograms are tidied.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// Begins to count, once for the process: later calls change nothing. It needs a tokio runtime.
pub fn start_metrics() {
    METRICS.get_or_init(|| {
        let latency = Matcher::Suffix("_seconds".to_owned());
        let batch = Matcher::Full(name::ORDER_BATCH_SIZE.to_owned());
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(latency, &LATENCY_BOUNDS_SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(batch, &BATCH_BOUNDS));
        let Ok(builder) = builder else { unreachable!("only an empty list of bounds is refused") };
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder counts the metrics already");
        }
        describe();
        count_from_zero();
        let upkeep = handle.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(UPKEEP_EVERY);
            loop {
                ticks.tick().await;
                upkeep.run_upkeep();
            }
        });
        handle
    });
}

/// What alerts wait for the first increase of (deploy/observability): a counter that is not there before it
/// is 1 has not increased, as Prometheus sees it.
fn count_from_zero() {
    for outcome in [UNAVAILABLE, INTERNAL_ERROR] {
        metrics::counter!(name::PURCHASES, "outcome" => outcome).increment(0);
    }
    for answer in ["failed", "done", "twice"] {
        metrics::counter!(name::REFUNDS, "answer" => answer).increment(0);
    }
    for settled in [
        "unknown",
        "wrong_amount",
        "returned_twice",
        "part_returned",
        "refund_failed",
        "partial",
        "other_amount",
        "was_refunded",
    ] {
        metrics::counter!(name::PAYMENTS, "settled" => settled).increment(0);
    }
    for limit in ["codes-in-all", "codes-for-newcomers", "codes-per-country"] {
        metrics::counter!(name::LOGIN_REFUSED, "limit" => limit).increment(0);
    }
    metrics::counter!(name::BREAKER_TRIPPED).increment(0);
    metrics::counter!(name::ORDER_BATCH_RESENT).increment(0);
    metrics::counter!(redisson_lock::metric::LOST).increment(0);
    metrics::counter!(redisson_lock::metric::CLEANUP_SKIPPED).increment(0);
}

/// A request was refused with 429, `by` the rate of its buyer, what the buyer has under way, the pause after a
/// cancellation, or the rate of its address. The log names one of each kind a minute.
pub fn rate_limited(by: &'static str, whom: &dyn Display) {
    metrics::counter!(name::RATE_LIMITED, "by" => by).increment(1);
    if is_to_be_named(by) {
        tracing::warn!(by, %whom, "asks too often and is told 429 (seckill_rate_limited_total)");
    }
}

/// `limit`, which all share, refused a login code, and refuses others for `wait`. The log says so once a minute.
pub fn login_closed(limit: &'static str, wait: Duration) {
    if is_to_be_named(limit) {
        let wait = humantime::format_duration(Duration::from_secs(wait.as_secs()));
        tracing::warn!(
            limit,
            "a limit that all share is used up: people are refused login codes for another {wait} \
             (SECKILL_LOGIN_LIMITS)"
        );
    }
}

/// Whether the log has not named this for a while; from now on it counts as named.
fn is_to_be_named(what: &'static str) -> bool {
    static NAMED: Mutex<BTreeMap<&str, Instant>> = Mutex::new(BTreeMap::new());
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = named.get(what).is_none_or(|at| at.elapsed() >= NAME_EVERY);
    if is_due {
        named.insert(what, Instant::now());
    }
    is_due
}

/// What the log said last of one thing: it is said again when it has changed, and not to each who meets it.
#[derive(Debug, Default)]
pub struct News<T>(Mutex<T>);

impl<T: PartialEq> News<T> {
    /// `known` goes without saying.
    pub const fn after(known: T) -> Self {
        Self(Mutex::new(known))
    }

    /// Whether `now` is to be said. It counts as said.
    pub fn is(&self, now: T) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *said != now;
        *said = now;
        is_news
    }
}

/// All metrics in the text format of Prometheus; empty before [`start_metrics`].
pub fn metrics_text() -> String {
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}

//! Metrics: every name and label value. Those of the lock are in its crate.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds of the latency histogram, in seconds.
const LATENCY_BOUNDS_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Upper bounds of the histogram of batches, in orders.
const BATCH_BOUNDS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The names of all metrics. `describe` says what each of them counts.
#[allow(missing_docs)]
pub mod name {
    pub const REQUEST_SECONDS: &str = "seckill_http_request_seconds";
    pub const PURCHASES: &str = "seckill_purchases_total";
    pub const PURCHASES_IN_FLIGHT: &str = "seckill_purchases_in_flight";
    pub const PURCHASES_LIMIT: &str = "seckill_purchases_limit";
    pub const ORDER_QUEUE_DEPTH: &str = "seckill_order_queue_depth";
    pub const ORDER_BATCHES_IN_FLIGHT: &str = "seckill_order_batches_in_flight";
    pub const SERVER_INFO: &str = "seckill_server_info";
    pub const UPTIME_SECONDS: &str = "seckill_uptime_seconds";
    pub const EVENT_STREAMS: &str = "seckill_event_streams";
    pub const LOGIN_REFUSED: &str = "seckill_login_refused_total";
    pub const RATE_LIMITED: &str = "seckill_rate_limited_total";
    pub const BREAKER_TRIPPED: &str = "seckill_breaker_tripped_total";
    pub const ORDER_BATCH_SIZE: &str = "seckill_order_batch_size";
    pub const ORDER_BATCH_RESENT: &str = "seckill_order_batch_resent_total";
    pub const ORDERS_EXPIRED: &str = "seckill_orders_expired_total";
    pub const PAYMENTS: &str = "seckill_payments_total";
    pub const REFUNDS: &str = "seckill_refunds_total";
    pub const REFUND_OLDEST_AGE: &str = "seckill_refund_oldest_age_seconds";
    pub const CLOCK_OFFSET: &str = "seckill_database_clock_offset_seconds";
    pub const CLOCK_ERROR: &str = "seckill_database_clock_error_seconds";
    pub const DATABASE_DURABLE: &str = "seckill_database_durable";
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

fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    let seconds = Unit::Seconds;
    describe_histogram!(name::REQUEST_SECONDS, seconds, "From a request's head to its answer.");
    describe_counter!(name::PURCHASES, "Attempts to buy, by outcome.");
    describe_gauge!(name::PURCHASES_IN_FLIGHT, "Purchases under way.");
    describe_gauge!(name::PURCHASES_LIMIT, "How many purchases may be under way.");
    describe_gauge!(name::ORDER_QUEUE_DEPTH, "Orders that wait for a transaction.");
    describe_gauge!(name::ORDER_BATCHES_IN_FLIGHT, "Transactions with orders in flight.");
    describe_gauge!(name::SERVER_INFO, "1; the labels say which server this is.");
    describe_gauge!(
        name::UPTIME_SECONDS,
        seconds,
        "Since the process began, at the moment of this text: the time between two texts."
    );
    describe_gauge!(name::EVENT_STREAMS, "Streams of events that are open.");
    describe_counter!(
        name::RATE_LIMITED,
        "Requests refused with 429, by the rate of their buyer, the buyer's share, or the rate of their address."
    );
    describe_counter!(name::LOGIN_REFUSED, "Codes asked for or tried that a limit refused.");
    describe_counter!(name::BREAKER_TRIPPED, "How often orders of a voucher could not be written.");
    describe_histogram!(name::ORDER_BATCH_SIZE, "Orders in a transaction.");
    describe_counter!(name::ORDER_BATCH_RESENT, "Transactions sent again: the answer was lost.");
    describe_counter!(name::ORDERS_EXPIRED, "Orders cancelled because their time to pay was over.");
    describe_gauge!(
        name::REFUND_OLDEST_AGE,
        seconds,
        "Since when the oldest refund waits for the payment gateway; 0 where none does."
    );
    describe_counter!(name::PAYMENTS, "What the payment gateway said, by what became of it.");
    describe_counter!(
        name::REFUNDS,
        "Refunds that the payment gateway was asked for, by its answer."
    );
    describe_gauge!(
        name::CLOCK_OFFSET,
        Unit::Seconds,
        "How far the database's clock is ahead of this machine's."
    );
    describe_gauge!(name::DATABASE_DURABLE, "Whether fsync and full_page_writes are on.");
    redisson_lock::metric::describe();
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
    for settled in ["unknown", "wrong_amount", "returned_twice"] {
        metrics::counter!(name::PAYMENTS, "settled" => settled).increment(0);
    }
    metrics::counter!(name::BREAKER_TRIPPED).increment(0);
    metrics::counter!(name::ORDER_BATCH_RESENT).increment(0);
    metrics::counter!(redisson_lock::metric::LOST).increment(0);
    metrics::counter!(redisson_lock::metric::CLEANUP_SKIPPED).increment(0);
}

/// One attempt to buy is over, with this outcome's code.
pub fn purchase_ended(outcome: &'static str) {
    metrics::counter!(name::PURCHASES, "outcome" => outcome).increment(1);
}

/// A login code, asked for or tried, was refused by the limit of this name.
pub fn login_refused(limit: &'static str) {
    metrics::counter!(name::LOGIN_REFUSED, "limit" => limit).increment(1);
}

/// A request was refused with 429, `by` the rate of its buyer, what the buyer has under way, the pause after a
/// cancellation, or the rate of its address. The log names one of each kind a minute.
pub fn rate_limited(by: &'static str, whom: &dyn Display) {
    static NAMED: Mutex<BTreeMap<&str, Instant>> = Mutex::new(BTreeMap::new());
    metrics::counter!(name::RATE_LIMITED, "by" => by).increment(1);
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if named.get(by).is_none_or(|at| at.elapsed() >= NAME_EVERY) {
        named.insert(by, Instant::now());
        tracing::warn!(by, %whom, "asks too often and is told 429 (seckill_rate_limited_total)");
    }
}

/// A transaction is sent with so many orders.
pub fn order_batch(size: usize) {
    metrics::histogram!(name::ORDER_BATCH_SIZE).record(size as f64);
}

/// A transaction is sent again, because the answer was lost.
pub fn order_batch_resent() {
    metrics::counter!(name::ORDER_BATCH_RESENT).increment(1);
}

/// The payment gateway said something, and this became of it.
pub fn payment_settled(settled: &'static str) {
    metrics::counter!(name::PAYMENTS, "settled" => settled).increment(1);
}

/// The payment gateway was asked for a refund, and this was its answer.
pub fn refund_tried(answer: &'static str) {
    metrics::counter!(name::REFUNDS, "answer" => answer).increment(1);
}

/// All metrics in the text format of Prometheus; empty before [`start_metrics`].
pub fn metrics_text() -> String {
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// One request was answered.
pub fn request_answered(route: &str, status: StatusCode, took: Duration) {
    let labels = [("route", route.to_owned()), ("status", status.as_str().to_owned())];
    metrics::histogram!(name::REQUEST_SECONDS, &labels).record(took.as_secs_f64());
}

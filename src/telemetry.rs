//! Logs and metrics.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::StatusCode;
use metrics::Histogram;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// Upper bounds of the latency histogram, in seconds.
const LATENCY_BOUNDS_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Upper bounds of the histogram of batches, in purchases.
const GROUP_BOUNDS: [f64; 8] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// How often histograms are tidied.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// Writes logs to standard error, so that standard output is for results. `filter` is in
/// the form of `RUST_LOG`.
pub fn start_logs(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// Begins to count. Once for the process; later calls change nothing. Must be called on a
/// tokio runtime.
pub fn start_metrics() {
    METRICS.get_or_init(|| {
        let latency = Matcher::Suffix("_seconds".to_owned());
        let group = Matcher::Full("seckill_group_size".to_owned());
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(latency, &LATENCY_BOUNDS_SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(group, &GROUP_BOUNDS))
            // Only an empty list of bounds is refused.
            .unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder counts the metrics already");
        }
        describe();
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
    use metrics::{Unit, describe_counter, describe_histogram};
    describe_histogram!(
        "seckill_http_request_seconds",
        Unit::Seconds,
        "From the request's head to the answer's, by route and status."
    );
    describe_counter!("seckill_purchases_total", "Attempts to buy, by outcome.");
    describe_counter!(
        "seckill_breaker_tripped_total",
        "How often the database failed and was given a rest."
    );
    describe_histogram!(
        "seckill_group_size",
        "Purchases in a transaction, of those with two or more."
    );
    describe_counter!(
        "seckill_group_broken_up_total",
        "Batches that the database refused, so that their members were judged singly."
    );
    describe_counter!(
        "seckill_group_settled_total",
        "Batches whose answer was lost and had to be asked for again."
    );
    describe_counter!("seckill_lock_acquired_total", "Locks acquired.");
    describe_counter!(
        "seckill_lock_contended_total",
        "How often somebody had to wait because the lock was held."
    );
    describe_histogram!(
        "seckill_lock_wait_seconds",
        Unit::Seconds,
        "How long those waited, in vain or not."
    );
    describe_counter!("seckill_lock_renewed_total", "Leases of locks lengthened.");
    describe_counter!("seckill_lock_lost_total", "Leases of locks lost while held.");
    describe_counter!(
        "seckill_lock_cleaned_up_total",
        "Locks given back in the background: dropped, or released without an answer."
    );
    describe_counter!(
        "seckill_lock_cleanup_skipped_total",
        "Locks left to their leases because too many were dropped at once."
    );
}

/// What was counted, in the text format of Prometheus; empty before [`start_metrics`].
pub fn metrics_text() -> String {
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// Counts one answered request, and how long the answer took, by route and status.
pub fn request_answered(route: &str, status: StatusCode, took: Duration) {
    // Looking a histogram up costs more than recording into it: each thread keeps the few
    // that there are. Routes and statuses are ours, so the list stays short.
    thread_local! {
        static KNOWN: RefCell<Vec<(String, StatusCode, Histogram)>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let place = known.iter().position(|(of, with, _)| *with == status && of == route);
        let place = place.unwrap_or_else(|| {
            let labels = [("route", route.to_owned()), ("status", status.as_str().to_owned())];
            let histogram = metrics::histogram!("seckill_http_request_seconds", &labels);
            known.push((route.to_owned(), status, histogram));
            known.len() - 1
        });
        known[place].2.record(took.as_secs_f64());
    });
}

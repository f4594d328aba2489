//! The names of the metrics that the lock counts through the `metrics` facade, with the feature `metrics`. All are
//! counters but [`WAIT_SECONDS`], a histogram. None has labels: names of locks may be any number.

/// Locks acquired.
pub const ACQUIRED: &str = "redisson_lock_acquired_total";
/// Waits: another owner held the lock, or Redis did not answer the first try.
pub const CONTENDED: &str = "redisson_lock_contended_total";
/// The length of these waits in seconds, in vain or not: a histogram.
pub const WAIT_SECONDS: &str = "redisson_lock_wait_seconds";
/// Leases renewed.
pub const RENEWED: &str = "redisson_lock_renewed_total";
/// Leases lost while held. Let an alarm watch it.
pub const LOST: &str = "redisson_lock_lost_total";
/// Locks released in the background: dropped, or released without an answer.
pub const CLEANED_UP: &str = "redisson_lock_cleaned_up_total";
/// Locks left to their leases because 65,536 waited for the background worker already. Let an alarm watch it.
pub const CLEANUP_SKIPPED: &str = "redisson_lock_cleanup_skipped_total";

/// Counts, where anybody can read it.
macro_rules! count {
    ($name:ident, $by:expr) => {{
        #[cfg(feature = "metrics")]
        metrics::counter!(crate::metric::$name).increment($by);
        #[cfg(not(feature = "metrics"))]
        let _ = $by;
    }};
}
pub(super) use count;

pub(super) fn waited(time: std::time::Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!(WAIT_SECONDS).record(time.as_secs_f64());
    #[cfg(not(feature = "metrics"))]
    let _ = time;
}

/// Tells the recorder of the process what each of them counts.
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub fn describe() {
    use metrics::{Unit, describe_counter, describe_histogram};
    describe_counter!(ACQUIRED, "Locks acquired.");
    describe_counter!(CONTENDED, "Waits for a lock that another owner held.");
    describe_histogram!(WAIT_SECONDS, Unit::Seconds, "Waits for locks, in vain or not.");
    describe_counter!(RENEWED, "Leases of locks renewed.");
    describe_counter!(LOST, "Leases of locks lost while held.");
    describe_counter!(
        CLEANED_UP,
        "Locks released in the background: dropped, or released without an answer."
    );
    describe_counter!(
        CLEANUP_SKIPPED,
        "Locks left to their leases because too many were dropped at once."
    );
}

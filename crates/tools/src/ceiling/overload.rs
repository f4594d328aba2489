//! An overload: a crowd of `wrk` whose connections ask again at once, unless the server told them to wait,
//! and beside it the open arrivals of `k6`, who just come by: what does the crowd cost them, and how soon
//! is it over when the crowd is gone?
//!
//! On two shared processors no tool offers five times the peak as open arrivals, for each request costs its
//! client time that the server lacks then. A crowd of many times the peak's connections asks for more than
//! can be sold at every moment.

use std::time::Duration;

use anyhow::Context;
use seckill::model::{Clock, SystemClock};
use seckill::purchase::Strategy;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::Bench;
use super::cpu::most_memory_mb;
use super::programs::{GRACE, output_of};
use super::results::{Figures, quantile};
use super::sales::STOCK;

/// The crowd's connections: fifteen times as many as the peak is measured with.
const CROWD: usize = 4_000;
/// Files that are not its connections.
const OTHER_FILES: usize = 100;
/// Arrivals a second: as few as say enough, because k6 is not light.
const ARRIVALS_PER_S: u64 = 100;
/// What k6 runs.
pub(super) const ARRIVALS_JS: &str = include_str!("../../../../loadtest/k6/arrivals.js");
/// How long k6 may take until its first arrival.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);
/// So long without a bad arrival is a recovery; a hiccup seconds later is none of the overload's.
const GOOD_MS: f64 = 1_000.0;
/// Slow is what takes twice the 99th percentile before the crowd, and so long.
const SLOW_MS: f64 = 50.0;

/// One of k6's lines.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// Milliseconds since 1970.
    at: f64,
    took_ms: f64,
    is_sold: bool,
}

/// How long k6 runs, where other measurements take `time`: before the crowd as long, beside it three times
/// as long, twice as long after it, and a second in which the crowd comes and goes.
fn lasting(time: Duration) -> Duration {
    time * 6 + Duration::from_secs(1)
}

/// How many arrivals there will be.
pub(super) fn arrivals(time: Duration) -> u64 {
    ARRIVALS_PER_S * lasting(time).as_secs()
}

impl Bench {
    /// Confirmed orders a second of the crowd, and what the arrivals saw.
    pub(super) async fn overload(
        &mut self,
        name: &str,
        strategy: Strategy,
    ) -> anyhow::Result<Figures> {
        let node = self.start(strategy).await?;
        let on_sale = self.put_on_sale(name, 1, STOCK).await?;
        let file = |name| self.directory.path().join(name);
        let log = file("arrivals.txt");
        std::fs::write(&log, "")?;
        let mut k6 = Command::new(self.programs.k6.as_ref().context("there is no k6")?);
        k6.args(["run", "--quiet", "--no-usage-report", "--no-summary", "--address", ""])
            .args(["--log-format", "raw", "--log-output", &format!("file={}", log.display())])
            .args(["-e", &format!("URL=http://{}{}", node.address, on_sale.path)])
            .args(["-e", &format!("TOKENS={}", file("arrivals.csv").display())])
            .args(["-e", &format!("RATE={ARRIVALS_PER_S}")])
            .args(["-e", &format!("SECONDS={}", lasting(self.duration).as_secs())])
            .arg(file("arrivals.js"));
        let connections =
            CROWD.min(rlimit::increase_nofile_limit(u64::MAX)? as usize - OTHER_FILES);
        let crowd = async {
            let begun = async {
                while std::fs::metadata(&log)?.len() == 0 {
                    sleep(Duration::from_millis(10)).await;
                }
                anyhow::Ok(())
            };
            timeout(BEGINS_WITHIN, begun).await.context("k6 did not begin")??;
            sleep(self.duration).await;
            let from = now_ms();
            let words = ["detail", "patient"];
            let crowd = self.wrk(&node, &on_sale.path, connections, self.duration * 3, &words);
            anyhow::Ok((crowd.await?, from, now_ms()))
        };
        let ended = output_of(k6, lasting(self.duration) + GRACE);
        let (_, (answers, from, until)) = tokio::try_join!(ended, crowd)?;
        let memory = most_memory_mb(&node);
        node.stop().await?;
        let came = read_arrivals(&std::fs::read_to_string(&log)?);
        let bought = came.iter().filter(|arrival| arrival.is_sold).count();
        let unsure = connections + came.len() - bought;
        self.check_books(name, &answers, bought as u64, &on_sale.ids, unsure).await?;
        let mut figures = answers.figures("below_400");
        figures.extend(memory.map(|mb| ("memory_mb", mb)));
        figures.insert("refused_per_s", answers.figures("from_400")["per_s"]);
        let dropped = arrivals(self.duration).saturating_sub(came.len() as u64);
        figures.insert("arrivals_dropped", dropped as f64);
        figures.extend(seen(&came, from, until));
        Ok(figures)
    }
}

fn now_ms() -> f64 {
    SystemClock.now().timestamp_millis() as f64
}

/// The lines that are arrivals: k6 also says when it drops some.
fn read_arrivals(log: &str) -> Vec<Arrival> {
    let read = |line: &str| {
        let mut words = line.split(' ');
        let [at, took_ms, status] = [words.next()?, words.next()?, words.next()?];
        Some(Arrival {
            at: at.parse().ok()?,
            took_ms: took_ms.parse().ok()?,
            is_sold: status == "201",
        })
    };
    log.lines().filter_map(read).collect()
}

/// What arrivals saw before the crowd, beside it, and after it.
fn seen(arrivals: &[Arrival], from: f64, until: f64) -> Figures {
    let within = |begin: f64, end: f64| {
        arrivals.iter().filter(move |arrival| (begin..end).contains(&arrival.at))
    };
    let p = |share, begin, end| {
        let took: Vec<f64> = within(begin, end).map(|arrival| arrival.took_ms).collect();
        quantile(&took, share)
    };
    let p99_before = p(0.99, 0.0, from);
    let slow_ms = p99_before.map_or(SLOW_MS, |p99_ms| SLOW_MS.max(2.0 * p99_ms));
    let is_bad = |arrival: &&Arrival| !arrival.is_sold || arrival.took_ms > slow_ms;
    let bad = within(until, f64::MAX).filter(is_bad).map(|arrival| arrival.at - until);
    let last = arrivals.iter().map(|arrival| arrival.at).fold(until, f64::max);
    let refused = within(from, until).filter(|arrival| !arrival.is_sold).count();
    let figures = [
        ("arrivals_p99_ms_before", p99_before),
        ("arrivals_p50_ms_beside", p(0.5, from, until)),
        ("arrivals_p99_ms_beside", p(0.99, from, until)),
        ("arrivals_p99_ms_after", p(0.99, until, f64::MAX)),
        ("arrivals_refused_beside", Some(refused as f64)),
        ("recovery_ms", recovery_ms(bad.collect(), last - until)),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// From the end of the crowd to the last of the bad arrivals that follow each other; `None` where they go
/// on to the last arrival.
fn recovery_ms(mut bad: Vec<f64>, last: f64) -> Option<f64> {
    bad.sort_by(f64::total_cmp);
    let follows = |recovered: &f64, at: &f64| at - recovered < GOOD_MS;
    let recovered =
        bad.iter().fold(0.0, |recovered, at| if follows(&recovered, at) { *at } else { recovered });
    (last - recovered >= GOOD_MS).then_some(recovered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_a_second_without_a_bad_arrival() {
        assert_eq!(recovery_ms(vec![], 5_000.0), Some(0.0));
        assert_eq!(recovery_ms(vec![10.0, 900.0, 300.0], 5_000.0), Some(900.0));
        // A hiccup, later.
        assert_eq!(recovery_ms(vec![10.0, 900.0, 1_950.0], 5_000.0), Some(900.0));
        assert_eq!(recovery_ms(vec![10.0, 900.0, 1_850.0], 2_000.0), None);
    }

    #[test]
    fn arrivals_belong_to_the_time_at_which_they_came() {
        let log =
            "1000 2 201\n2000 300 201\nInsufficient VUs\n2500 40 503\n3000 400 201\n6000 2 201\n";
        let figures = seen(&read_arrivals(log), 2_000.0, 3_000.0);
        assert_eq!(figures["arrivals_p99_ms_before"], 2.0);
        assert_eq!(figures["arrivals_p99_ms_beside"], 300.0);
        assert_eq!((figures["arrivals_refused_beside"], figures["recovery_ms"]), (1.0, 0.0));
    }
}

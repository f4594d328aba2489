//! An overload: a crowd of `wrk` whose connections ask again at once, unless the server told them to wait,
//! and beside it the open arrivals of `k6`, who just come by: what does the crowd cost them, and how soon
//! is it over when the crowd is gone?
//!
//! On two shared processors no tool offers five times the peak as open arrivals, for each request costs its
//! client time that the server lacks then. A crowd of many times the peak's connections asks for more than
//! can be sold at every moment.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use seckill::model::{Clock, SystemClock};
use seckill::purchase::Strategy;
use tokio::time::{sleep, timeout};

use super::Testbed;
use super::cpu::most_memory_mb;
use super::programs::{GRACE, output_of};
use super::results::{Readings, quantile};
use super::sales::{BUYERS, STOCK};

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
/// A buyer that waits longer, or is refused, is not served well.
const SERVED_WITHIN_MS: f64 = 250.0;
/// The last moments of a run prove no recovery.
const PROVEN_BY_MS: f64 = 1_000.0;

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

/// How many arrivals there will be. k6 begins one or two more than it was told.
pub(super) fn arrivals(time: Duration) -> u64 {
    ARRIVALS_PER_S * lasting(time).as_secs() + 2
}

impl Testbed {
    /// Confirmed orders a second of the crowd, and what the arrivals saw.
    pub(super) async fn overload(
        &mut self,
        name: &str,
        strategy: Strategy,
    ) -> anyhow::Result<Readings> {
        let node = self.start(strategy).await?;
        let on_sale = self.put_on_sale(name, 1, STOCK).await?;
        let file = |name| self.directory.path().join(name);
        let log = file("arrivals.txt");
        let mut k6 = Command::new(self.programs.k6.as_ref().context("there is no k6")?);
        k6.args(["run", "--quiet", "--no-usage-report", "--address", ""])
            .args(["--log-format", "raw", "--log-output", &format!("file={}", log.display())])
            .args(["-e", &format!("URL=http://{}{}", node.address, on_sale.path)])
            .args(["-e", &format!("TOKENS={}", file("arrivals.csv").display())])
            .args(["-e", &format!("RATE={ARRIVALS_PER_S}")])
            .args(["-e", &format!("SECONDS={}", lasting(self.duration).as_secs())])
            .arg(file("arrivals.js"));
        let connections = connections_of(CROWD)?;
        let crowd = async {
            let begun = async {
                while self.taken(&on_sale.ids).await? == 0 {
                    sleep(Duration::from_millis(10)).await;
                }
                anyhow::Ok(())
            };
            timeout(BEGINS_WITHIN, begun).await.context("k6 did not begin")??;
            sleep(self.duration).await;
            let from = now_ms();
            let words = ["detail", "patient"];
            let crowd =
                self.wrk(&node, (BUYERS, &on_sale.path), connections, self.duration * 3, &words);
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

/// So many connections, or as many as this process may have.
pub(super) fn connections_of(wanted: usize) -> anyhow::Result<usize> {
    Ok(wanted.min(rlimit::increase_nofile_limit(u64::MAX)? as usize - OTHER_FILES))
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

/// What arrivals saw before the crowd and beside it, and how long after it somebody was not served well.
fn seen(arrivals: &[Arrival], from: f64, until: f64) -> Readings {
    let within = |begin: f64, end: f64| {
        arrivals.iter().filter(move |arrival| (begin..end).contains(&arrival.at))
    };
    let p = |share, begin, end| {
        let took: Vec<f64> = within(begin, end).map(|arrival| arrival.took_ms).collect();
        quantile(&took, share)
    };
    let is_bad = |arrival: &&Arrival| !arrival.is_sold || arrival.took_ms > SERVED_WITHIN_MS;
    let after = |bad: bool| {
        let those = within(until, f64::MAX).filter(|arrival| !bad || is_bad(arrival));
        those.map(|arrival| arrival.at - until).fold(0.0, f64::max)
    };
    let refused = within(from, until).filter(|arrival| !arrival.is_sold).count();
    let recovered = after(false) - after(true) >= PROVEN_BY_MS;
    let figures = [
        ("arrivals_p99_ms_before", p(0.99, 0.0, from)),
        ("arrivals_p50_ms_beside", p(0.5, from, until)),
        ("arrivals_p99_ms_beside", p(0.99, from, until)),
        ("arrivals_refused_beside", Some(refused as f64)),
        ("recovery_ms", recovered.then(|| after(true))),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_the_last_bad_arrival_unless_it_is_one_of_the_last() {
        let log = "1000 2 201\n2000 300 201\nInsufficient VUs\n2500 40 503\n2900 400 201\n";
        for (after, recovery_ms) in [
            ("3900 9 503\n4900 2 201", Some(&900.0)),
            ("3100 9 201\n6000 2 201", Some(&0.0)),
            ("3900 9 201\n4000 400 201\n4900 2 201", None),
        ] {
            let figures = seen(&read_arrivals(&format!("{log}{after}")), 2_000.0, 3_000.0);
            assert_eq!(figures["arrivals_p99_ms_before"], 2.0);
            assert_eq!(figures["arrivals_p99_ms_beside"], 400.0);
            assert_eq!(figures["arrivals_refused_beside"], 1.0);
            assert_eq!(figures.get("recovery_ms"), recovery_ms, "{after}");
        }
    }
}

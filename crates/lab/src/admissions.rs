//! Users who were let in: how often, and within what time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::scheduler::Scheduler;
use super::told::Witness;
use ladder::{Capability, LIMIT, WINDOW};

/// When each user was let in, by the time that the lab has let pass. Users count from 1.
fn admissions(scheduler: &Scheduler<'_>) -> BTreeMap<i64, Vec<Duration>> {
    let mut of_user: BTreeMap<i64, Vec<Duration>> = BTreeMap::new();
    for record in &scheduler.actors {
        if let Some(time) = record.let_in {
            of_user.entry(record.user - scheduler.first_user + 1).or_default().push(time);
        }
    }
    of_user.values_mut().for_each(|times| times.sort_unstable());
    of_user
}

/// The first user who was let in more often than the limit, and what the rate has added in that time.
pub(super) fn over_the_rate(scheduler: &Scheduler<'_>) -> Option<Witness> {
    if !scheduler.rung.can(Capability::Rate) {
        return None;
    }
    admissions(scheduler).into_iter().find_map(|(user, times)| {
        let (count, within) = most_beyond(&times)?;
        Some(Witness::OverTheRate { user, count, seconds: within.as_secs() })
    })
}

/// The earliest and longest stretch with more admissions than are due: how many, and how long it is.
fn most_beyond(times: &[Duration]) -> Option<(usize, Duration)> {
    let stretches = (0..times.len())
        .flat_map(|first| (first..times.len()).rev().map(move |last| (first, last)));
    let mut stretches =
        stretches.map(|(first, last)| (last - first + 1, times[last] - times[first]));
    stretches.find(|(count, within)| {
        let added = LIMIT as f64 * within.as_secs_f64() / WINDOW.as_secs_f64();
        *count as f64 > LIMIT as f64 + added
    })
}

/// The first user whose one token let in more than one request.
pub(super) fn let_in_twice(scheduler: &Scheduler<'_>) -> Option<Witness> {
    if !scheduler.rung.can(Capability::Token) {
        return None;
    }
    let twice = admissions(scheduler).into_iter().find(|(_, times)| times.len() > 1);
    twice.map(|(user, times)| Witness::LetInTwice { user, count: times.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_the_limit_and_what_the_rate_adds_in_its_time() {
        let beyond = |seconds: &[u64]| {
            let times: Vec<Duration> = seconds.iter().copied().map(Duration::from_secs).collect();
            most_beyond(&times).map(|(count, within)| (count, within.as_secs()))
        };
        for (seconds, found) in [
            (&[][..], None),
            (&[0, 0, 0], None),
            (&[0, 0, 0, 0], Some((4, 0))),
            // The fourth is due after twenty seconds, and no sooner.
            (&[0, 0, 0, 19], Some((4, 19))),
            (&[0, 0, 0, 20], None),
            (&[0, 0, 0, 20, 40, 60, 60], Some((7, 60))),
            // The edge of a window that began at 0.
            (&[0, 50, 50, 60, 60, 60], Some((5, 10))),
            (&[0, 50, 50, 60, 80], None),
        ] {
            assert_eq!(beyond(seconds), found, "{seconds:?}");
        }
    }
}

//! From a round that fails to the least one that still does.

use super::plan::Round;

/// Rounds that are run in search of it.
const MOST: usize = 24;
/// A fault strikes at another moment each time: a round that failed may hold the next time.
const TRIES: usize = 2;

/// The smallest round below `round` that `fails`, or `round` itself.
pub async fn smallest(mut round: Round, mut fails: impl AsyncFnMut(&Round) -> bool) -> Round {
    let mut left = MOST;
    'smaller: loop {
        for smaller in round.smaller() {
            for _ in 0..TRIES {
                if left == 0 {
                    return round;
                }
                left -= 1;
                if fails(&smaller).await {
                    round = smaller;
                    continue 'smaller;
                }
            }
        }
        return round;
    }
}

#[tokio::test]
async fn a_failing_round_shrinks_to_the_one_fault_that_breaks_it() {
    let mut tried = 0;
    for seed in 0..300 {
        let round = Round::of(seed);
        let guilty = *round.steps.last().unwrap();
        let fails = async |round: &Round| {
            tried += 1;
            round.steps.iter().any(|step| step.fault == guilty.fault)
        };
        let smallest = smallest(round, fails).await;
        assert_eq!(smallest.steps.len(), 1, "{smallest}");
        assert_eq!(smallest.steps[0].fault, guilty.fault, "{smallest}");
        assert!(smallest.steps[0].lasts < guilty.lasts.max(std::time::Duration::from_millis(1)));
    }
    assert!(tried > 300 && tried <= 300 * MOST);
}

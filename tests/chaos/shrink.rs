//! From a round that fails to the fewest faults that still do.

use super::plan::Round;

/// `round` without each fault that it does not need to fail. A fault strikes at another moment each time: a round that failed
/// may hold the next time, and is tried twice.
pub async fn smallest(mut round: Round, mut fails: impl AsyncFnMut(&Round) -> bool) -> Round {
    let mut at = 0;
    while at < round.steps.len() {
        let mut fewer = round.clone();
        fewer.steps.remove(at);
        if fails(&fewer).await || fails(&fewer).await {
            round = fewer;
        } else {
            at += 1;
        }
    }
    round
}

#[tokio::test]
async fn a_failing_round_shrinks_to_the_one_fault_that_breaks_it() {
    for seed in 0..300 {
        let round = Round::of(seed);
        for guilty in &round.steps {
            let fails = async |round: &Round| round.steps.contains(guilty);
            assert_eq!(smallest(round.clone(), fails).await.steps, [*guilty]);
        }
    }
}

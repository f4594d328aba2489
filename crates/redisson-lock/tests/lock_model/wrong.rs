//! The model told of what must not be: it says so. A check that lets everything pass would
//! pass every test.

use std::time::Duration;

use redisson_lock::Lease;

use super::model::{Entered, Model, Verdict};

const LEASE: Duration = Duration::from_secs(900);

fn entered(owner: usize, token: u64) -> Entered {
    let (lease, token) = (Lease::Renewed(LEASE), Some(token));
    Entered { client: 0, name: 0, owner, lease, validity: LEASE, fenced: true, token }
}

/// One lock, and the owners 0 and 1, of whom the first holds it with token 5.
fn held() -> Model {
    let mut model = Model::new(1);
    for owner in ["a:0", "b:1"] {
        model.new_owner(Some(owner.to_owned()));
    }
    model.entered(entered(0, 5)).unwrap();
    model
}

fn seen(owner: &str, holds: i64, left_ms: i64) -> Vec<(i64, Vec<(String, i64)>)> {
    vec![(left_ms, vec![(owner.to_owned(), holds)])]
}

fn refused<T: std::fmt::Debug>(verdict: Verdict<T>, why: &str) {
    let problem = verdict.unwrap_err();
    assert!(problem.contains(why), "{problem}");
}

#[test]
fn a_true_story_is_believed() {
    let mut model = held();
    model.compare(&seen("a:0", 1, 899_990)).unwrap();
    model.refused(0, 1, false).unwrap();
    let again = model.entered(entered(0, 5)).unwrap();
    model.compare(&seen("a:0", 2, 899_990)).unwrap();
    model.left(again, true).unwrap();
    model.left(0, true).unwrap();
    model.compare(&[(-2, vec![])]).unwrap();
    let next = model.entered(entered(1, 6)).unwrap();
    assert!(model.freed(0, true));
    model.compare_loss(next, false).unwrap();
    model.time(LEASE / 3);
    model.compare_loss(next, true).unwrap();
    model.left(next, false).unwrap();
}

#[test]
fn two_inside_and_a_token_that_does_not_grow_are_found() {
    refused(held().entered(entered(1, 6)), "two are inside");
    for token in [4, 6] {
        refused(held().entered(entered(0, token)), "the token");
    }
    let mut model = held();
    model.left(0, true).unwrap();
    for (owner, token) in [(1, 5), (0, 4)] {
        refused(model.entered(entered(owner, token)), "the token");
    }
}

#[test]
fn a_hold_too_many_or_too_few_is_found() {
    for (owner, holds, left) in [
        ("a:0", 2, 899_990),
        ("b:1", 1, 899_990),
        ("c:2", 1, 899_990),
        ("a:0", 1, 400_000),
        ("a:0", 1, -1),
    ] {
        refused(held().compare(&seen(owner, holds, left)), "in Redis");
    }
    refused(held().compare(&[(-2, vec![])]), "in Redis");
    let mut model = held();
    model.given_back(0);
    refused(model.compare(&seen("a:0", 1, 899_990)), "is free");
}

#[test]
fn a_wrong_refusal_a_wrong_answer_and_a_silent_loss_are_found() {
    refused(held().refused(0, 0, true), "was not let in");
    refused(Model::new(1).refused(0, 0, false), "was not let in");
    refused(held().left(0, false), "a release was answered");
    let mut model = held();
    model.freed(0, false);
    refused(model.left(0, true), "a release was answered");
    model.time(LEASE / 3);
    refused(model.compare_loss(0, false), "the guard says lost");
}

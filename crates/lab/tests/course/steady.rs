//! Cells without what differs from run to run. Who is served first of those who queue for a row PostgreSQL
//! decides: letters are given in the order in which they are served. Fencing tokens count from 1. What then
//! still differs are an operating system's words for a server that is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use ladder::{Awaited, Detail, Point};
use seckill_lab::told::{AtPoint, Event};
use seckill_lab::{Cell, TimelineLine};

/// After these, the words of an operating system.
const BEFORE_WORDS: [&str; 2] = ["comes to no answer:", "没有得到响应："];

/// The cell as it would be if PostgreSQL served the letters in their order.
pub fn steadied(mut cell: Cell) -> Cell {
    letters_as_served(&mut cell.timeline);
    count_tokens(&mut cell.timeline);
    cell
}

fn letters_as_served(lines: &mut [TimelineLine]) {
    let waits = |line: &TimelineLine| line.event == Event::Waits { what: Awaited::LockedRow };
    let queue: BTreeSet<String> =
        lines.iter().filter(|line| waits(line)).filter_map(|line| line.actor.clone()).collect();
    let (mut waiting, mut served) = (BTreeSet::new(), Vec::new());
    for line in lines {
        let Some(actor) = line.actor.clone().filter(|actor| queue.contains(actor)) else {
            continue;
        };
        if waits(line) {
            waiting.insert(actor);
        } else if waiting.contains(&actor) {
            if !served.contains(&actor) {
                served.push(actor.clone());
            }
            let nth = served.iter().position(|it| *it == actor);
            line.actor = nth.and_then(|nth| queue.iter().nth(nth).cloned());
        }
    }
}

fn count_tokens(lines: &mut [TimelineLine]) {
    let mut tokens: Vec<&mut i64> =
        lines.iter_mut().filter_map(|line| line.event.token_mut()).collect();
    let known: BTreeSet<i64> = tokens.iter().map(|token| **token).collect();
    for token in &mut tokens {
        **token = known.range(..=**token).count() as i64;
    }
}

/// Whether two texts differ in nothing but what no run has in common with another.
pub fn are_same(one: &[String], other: &[String]) -> bool {
    let masked = |line: &String| {
        let at = BEFORE_WORDS.iter().find_map(|word| Some(line.find(word)? + word.len()));
        line[..at.unwrap_or(line.len())].to_owned()
    };
    one.iter().map(masked).eq(other.iter().map(masked))
}

#[test]
fn what_differs_from_run_to_run_is_left_out_and_nothing_else() {
    let same = |one: &str, other: &str| are_same(&[one.to_owned()], &[other.to_owned()]);
    assert!(!same("  x breaks: holds 2 orders: 8 and 9", "  x breaks: holds 2 orders: 1 and 2"));
    assert!(same("    A      comes to no answer: x", "    A      comes to no answer: y"));
    assert!(!same("    A      reads the stock: 1", "    A      reads the stock: 2"));
}

#[test]
fn letters_are_given_as_they_are_served_and_tokens_count_from_one() {
    let timeline = |lines: &[(&str, Event)]| -> Vec<String> {
        let lines = lines.iter();
        let mut lines: Vec<TimelineLine> =
            lines.map(|(actor, event)| TimelineLine::of(actor, event.clone())).collect();
        letters_as_served(&mut lines);
        count_tokens(&mut lines);
        let told =
            |line: &TimelineLine| format!("{} {}", line.actor.as_deref().unwrap(), line.event);
        lines.iter().map(told).collect()
    };
    let row = || Event::Waits { what: Awaited::LockedRow };
    let does = |text: &str| Event::from(text);
    let served = |first: &str, second: &str| {
        let queue = [("A", does("x")), ("B", row()), ("C", row())];
        let answers = [(first, does("1")), (second, does("2")), (first, does("3"))];
        timeline(&[queue, answers].concat())
    };
    assert_eq!(served("C", "B"), served("B", "C"));
    assert_eq!(served("C", "B")[3..], ["B 1", "C 2", "B 3"]);
    assert_eq!(timeline(&[("B", row()), ("A", does("1")), ("B", does("2"))])[1..], ["A 1", "B 2"]);
    let holds = |token| {
        let detail = Detail::Fenced(Duration::from_secs(1), token);
        Event::At { step: AtPoint(Point::Locked, detail) }
    };
    let tokens = timeline(&[("A", holds(17)), ("B", holds(9)), ("A", does("it is"))]);
    let held = |actor, token| format!("{actor} holds the lock: for 1 s, by token {token}");
    assert_eq!(tokens, [held("A", 2), held("B", 1), "A it is".to_owned()]);
}

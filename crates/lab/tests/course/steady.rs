//! Cells without what differs from run to run. Who is served first of those who queue for a row PostgreSQL
//! decides: letters are given in the order in which they are served. Fencing tokens count from 1. What then
//! still differs are an operating system's words for a server that is gone.

use std::collections::BTreeSet;

use seckill_lab::{Cell, TimelineLine};

const TOKEN: &str = ", by token ";

/// After these, the words of an operating system.
const BEFORE_WORDS: [&str; 2] = ["comes to no answer:", "没有得到响应："];

/// The cell as it would be if PostgreSQL served the letters in their order.
pub fn steadied(mut cell: Cell) -> Cell {
    letters_as_served(&mut cell.timeline);
    count_tokens(&mut cell.timeline);
    cell
}

fn letters_as_served(lines: &mut [TimelineLine]) {
    let waits = |line: &TimelineLine| line.text.starts_with("waits for a row");
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
    let token = |line: &TimelineLine| line.text.split_once(TOKEN)?.1.parse::<i64>().ok();
    let tokens: BTreeSet<i64> = lines.iter().filter_map(token).collect();
    for line in lines {
        let Some(nth) = token(line).and_then(|it| tokens.iter().position(|known| *known == it))
        else {
            continue;
        };
        let said = line.text.split(TOKEN).next().unwrap_or_default();
        line.text = format!("{said}{TOKEN}{}", nth + 1);
    }
}

/// Whether two texts differ in nothing but what no run has in common with another.
pub fn are_same(one: &[String], other: &[String]) -> bool {
    let masked = |lines: &[String]| lines.iter().map(|line| masked(line)).collect::<Vec<_>>();
    masked(one) == masked(other)
}

fn masked(line: &str) -> String {
    if let Some(word) = BEFORE_WORDS.iter().find(|word| line.contains(*word)) {
        let head = line.split(word).next().unwrap_or_default();
        return format!("{head}{word}");
    }
    line.to_owned()
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
    let timeline = |lines: &[(&str, &str)]| -> Vec<String> {
        let mut lines: Vec<TimelineLine> =
            lines.iter().map(|(actor, text)| TimelineLine::of(actor, *text)).collect();
        letters_as_served(&mut lines);
        count_tokens(&mut lines);
        lines
            .iter()
            .map(|line| format!("{} {}", line.actor.as_deref().unwrap(), line.text))
            .collect()
    };
    let row = "waits for a row that another transaction has locked";
    let served = |first: &str, second: &str| {
        timeline(&[("A", "x"), ("B", row), ("C", row), (first, "1"), (second, "2"), (first, "3")])
    };
    assert_eq!(served("C", "B"), served("B", "C"));
    assert_eq!(served("C", "B")[3..], ["B 1", "C 2", "B 3"]);
    assert_eq!(timeline(&[("B", row), ("A", "1"), ("B", "2")])[1..], ["A 1", "B 2"]);
    let tokens = [("A", "it is, by token 17"), ("B", "it is, by token 9"), ("A", "it is")];
    assert_eq!(timeline(&tokens), ["A it is, by token 2", "B it is, by token 1", "A it is"]);
}

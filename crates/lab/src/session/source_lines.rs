//! Where in a rung's file an actor stands.

use ladder::{Point, Rung};

/// What an actor did last, and the line of the rung's file where it stands, from 1.
pub(super) type Place = (&'static str, Option<usize>);

/// The line of a pause point, from 1. A relay has some points in each of its two kinds of turn: there it is
/// where a turn begins.
pub(super) fn of_point(rung: &Rung, point: Point) -> Option<usize> {
    let call = format!(".at(Point::{point:?},");
    match rung.source.matches(&call).count() {
        0 | 1 => first(rung, 0, |line| line.contains(&call)),
        _ => of_turn(rung),
    }
}

/// Where a consumer's turn begins.
pub(super) fn of_turn(rung: &Rung) -> Option<usize> {
    first(rung, 0, |line| line.contains("async fn write_next(&self"))
}

/// Where an attempt begins.
pub(super) fn of_beginning(rung: &Rung) -> Option<usize> {
    first(rung, 0, |line| line.contains("async fn buy(&self, purchase"))
}

/// Where a notice of a payment begins.
pub(super) fn of_payment(rung: &Rung) -> Option<usize> {
    first(rung, 0, |line| line.contains("async fn pay(&self"))
}

/// Where the end of an unpaid order begins.
pub(super) fn of_expiry(rung: &Rung) -> Option<usize> {
    first(rung, 0, |line| line.contains("async fn expire(&self"))
}

/// Where an attempt that stood at line `after` waits for another one in its process.
pub(super) fn of_waiting(rung: &Rung, after: usize) -> Option<usize> {
    first(rung, after, |line| line.contains(".waiting("))
}

/// The statement after line `after` that waits for a row: the next one that locks any.
pub(super) fn of_row(rung: &Rung, after: usize) -> Option<usize> {
    first(rung, after, |line| {
        let sql = !line.trim_start().starts_with("//");
        sql && ["update ", "for update", "do update", "pg_advisory_xact_lock"]
            .iter()
            .any(|word| line.contains(word))
    })
}

fn first(rung: &Rung, after: usize, is_it: impl Fn(&str) -> bool) -> Option<usize> {
    let mut lines = rung.source.lines().enumerate().skip(after);
    lines.find(|(_, line)| is_it(line)).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladder::{Capability, RUNGS};

    #[test]
    fn every_pause_point_has_one_line_in_its_rungs_file() {
        for rung in RUNGS {
            assert!(of_beginning(rung).is_some(), "{}", rung.id);
            assert_eq!(of_turn(rung).is_some(), rung.has_consumer(), "{}", rung.id);
            let named = rung.source.matches("Point::").count();
            let mut found = 0;
            for point in Point::ALL.iter().copied() {
                let call = format!(".at(Point::{point:?},");
                let times = rung.source.matches(&call).count();
                let most = if rung.can(Capability::Relay) { 2 } else { 1 };
                assert!(times <= most, "{}: {point:?} is reached from {times} lines", rung.id);
                assert_eq!(of_point(rung, point).is_some(), times > 0);
                found += times;
            }
            assert_eq!(found, named, "{}: a pause point is written in another way", rung.id);
        }
    }
}

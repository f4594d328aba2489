//! The schedules of one setting as a tree, for a page that replays them without a server: what two
//! schedules begin with is there once.

use serde::Serialize;

use super::exploration::{Leaf, MAX_REPLAYED};
use crate::judge::Breach;
use crate::timeline::TimelineLine;

/// An event, and how it looks.
#[derive(Debug, Clone, Serialize)]
struct RecordedLine {
    #[serde(flatten)]
    line: TimelineLine,
    kind: &'static str,
}

/// What a step leads to. The root stands before the first step.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayTree {
    /// The step, as a schedule names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    step: String,
    /// What happened in it, and after the last step what the judge found.
    lines: Vec<RecordedLine>,
    /// What can come next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<ReplayTree>,
    /// The promises that a schedule broke which ends here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    broken: Vec<Breach>,
    /// Why nothing is known of a schedule that ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl ReplayTree {
    /// All schedules of a setting; `None` where there are more than are kept.
    pub(super) fn of(leaves: &[Leaf]) -> Option<Self> {
        if leaves.is_empty() || leaves.len() > MAX_REPLAYED {
            return None;
        }
        let mut root = Self::default();
        for leaf in leaves {
            root.add(leaf);
        }
        Some(root)
    }

    fn add(&mut self, leaf: &Leaf) {
        let name = leaf.schedule.to_string();
        // What failed before its first step has none, and is told at the root.
        let names: Vec<&str> = name.split_whitespace().collect();
        // A schedule that failed on the way has fewer marks than steps.
        let ends = |place: usize| leaf.lines_after.get(place).copied();
        let mut begun = ends(0).unwrap_or(leaf.timeline.len());
        self.keep(&leaf.timeline[..begun]);
        let mut node = self;
        for (place, name) in names.iter().enumerate() {
            let last = place + 1 == names.len();
            let end = if last { None } else { ends(place + 1) };
            let end = end.unwrap_or(leaf.timeline.len());
            let lines = &leaf.timeline[begun..end];
            begun = end;
            node = node.child(name);
            node.keep(lines);
        }
        node.broken.clone_from(&leaf.broken);
        node.unknown.clone_from(&leaf.unknown);
    }

    /// The child after `step`, which is made where there was none.
    fn child(&mut self, step: &str) -> &mut Self {
        let known = self.next.binary_search_by(|child| child.step.as_str().cmp(step));
        let place = known.unwrap_or_else(|place| {
            self.next.insert(place, Self { step: step.to_owned(), ..Self::default() });
            place
        });
        &mut self.next[place]
    }

    /// The first schedule that comes here says what happens: the others do the same.
    fn keep(&mut self, lines: &[TimelineLine]) {
        if self.lines.is_empty() {
            let recorded = lines
                .iter()
                .map(|line| RecordedLine { line: line.clone(), kind: line.event.class() });
            self.lines = recorded.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game::Schedule;

    fn leaf(schedule: &str, events: &[&str], lines_after: &[usize]) -> Leaf {
        Leaf {
            schedule: schedule.parse::<Schedule>().unwrap_or_default(),
            broken: Vec::new(),
            unknown: None,
            timeline: events.iter().map(|event| TimelineLine::of_the_lab(*event)).collect(),
            lines_after: lines_after.to_vec(),
        }
    }

    #[test]
    fn what_two_schedules_begin_with_is_there_once_and_the_steps_are_in_order() {
        let later = leaf("A1 B1", &["sale", "a", "b", "end"], &[1, 2, 3]);
        let sooner = leaf("A1 A2", &["sale", "a", "a again"], &[1, 2, 3]);
        let tree = ReplayTree::of(&[later, sooner]);
        let first = tree.as_ref().map(|tree| &tree.next[0]);
        let next = first.map_or(&[][..], |first| &first.next[..]);
        let told = |node: &ReplayTree| -> Vec<String> {
            node.lines.iter().map(|recorded| recorded.line.event.to_string()).collect()
        };
        assert_eq!(tree.as_ref().map(told), Some(vec!["sale".to_owned()]));
        assert_eq!(first.map(told), Some(vec!["a".to_owned()]));
        let steps: Vec<(&str, Vec<String>)> =
            next.iter().map(|node| (node.step.as_str(), told(node))).collect();
        let expected = [("A2", vec!["a again".to_owned()]), ("B1", vec!["b".into(), "end".into()])];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_schedule_that_failed_before_its_first_step_adds_none() {
        let tree = ReplayTree::of(&[leaf("", &["sale"], &[])]);
        assert!(tree.is_some_and(|tree| tree.next.is_empty() && tree.lines.len() == 1));
    }

    #[test]
    fn a_page_has_every_schedule_of_a_setting_up_to_the_bound_and_none_beyond_it() {
        let many = |count| ReplayTree::of(&vec![leaf("A1", &["sale", "a"], &[1, 2]); count]);
        let is_there = [0, 1, MAX_REPLAYED - 1, MAX_REPLAYED, MAX_REPLAYED + 1]
            .map(|count| many(count).is_some());
        assert_eq!(is_there, [false, true, true, true, false]);
    }
}

//! What one rung's file has that its neighbour's has not.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use ladder::Rung;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffTag {
    /// In both.
    Same,
    /// Only in the first.
    Removed,
    /// Only in the second.
    Added,
}

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// What became of it.
    pub tag: DiffTag,
    /// The line, without its end.
    pub text: String,
}

/// From one rung's file to another's, every line of both.
pub fn diff(from: &Rung, to: &Rung) -> Vec<DiffLine> {
    let lines = TextDiff::from_lines(from.source, to.source);
    let line = |change: similar::Change<&str>| DiffLine {
        tag: match change.tag() {
            ChangeTag::Equal => DiffTag::Same,
            ChangeTag::Delete => DiffTag::Removed,
            ChangeTag::Insert => DiffTag::Added,
        },
        text: change.value().trim_end_matches('\n').to_owned(),
    };
    lines.iter_all_changes().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladder::RUNGS;

    #[test]
    fn a_diff_holds_both_files_and_names_what_changed() {
        for pair in RUNGS.windows(2) {
            let lines = diff(&pair[0], &pair[1]);
            for (rung, other) in [(&pair[0], DiffTag::Added), (&pair[1], DiffTag::Removed)] {
                let kept =
                    lines.iter().filter(|line| line.tag != other).map(|line| line.text.as_str());
                assert!(kept.eq(rung.source.lines()), "{}", rung.id);
            }
            assert!(lines.iter().any(|line| line.tag == DiffTag::Added));
        }
    }
}

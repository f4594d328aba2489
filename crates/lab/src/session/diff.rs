//! What one rung's code has that its neighbour's has not: without comments, and as if both designs had one
//! name. In a line that was changed the words are told from those that stayed.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use ladder::Rung;

/// Two lines of which less is alike are another line each.
const ALIKE: f32 = 0.6;

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

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffPart {
    /// Its text.
    pub text: String,
    /// Whether the line that it is held against has something else there.
    pub changed: bool,
}

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// What became of it.
    pub tag: DiffTag,
    /// The line, without its end.
    pub parts: Vec<DiffPart>,
}

impl DiffLine {
    /// The whole line.
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }
}

/// From one rung's code to another's, every line of both.
pub fn diff(from: &Rung, to: &Rung) -> Vec<DiffLine> {
    let new_name = design(to.source);
    let renamed = with_name(&code(from.source), design(from.source), new_name);
    diff_of(&renamed, &code(to.source))
}

fn diff_of(from: &str, to: &str) -> Vec<DiffLine> {
    let lines = TextDiff::from_lines(from, to);
    let mut found: Vec<DiffLine> = Vec::new();
    for change in lines.iter_all_changes() {
        let tag = match change.tag() {
            ChangeTag::Equal => DiffTag::Same,
            ChangeTag::Delete => DiffTag::Removed,
            ChangeTag::Insert => DiffTag::Added,
        };
        let text = change.value().trim_end_matches('\n').to_owned();
        found.push(DiffLine { tag, parts: vec![DiffPart { text, changed: false }] });
    }
    mark_changed_words(&mut found);
    found
}

/// The code, without comments and without empty lines at the beginning.
fn code(source: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines: Vec<&str> = source.lines().filter(|line| !is_comment(line)).collect();
    let begins = lines.iter().position(|line| !line.is_empty()).unwrap_or_default();
    lines[begins..].iter().map(|line| format!("{line}\n")).collect()
}

/// The type that is the design.
fn design(source: &str) -> &str {
    let after = source.split_once("impl Design for ").map_or("", |(_, after)| after);
    after.split(|letter: char| !is_of_a_word(letter)).next().unwrap_or_default()
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// `text` with the word `old` replaced.
fn with_name(text: &str, old: &str, new: &str) -> String {
    if old.is_empty() {
        return text.to_owned();
    }
    let (mut renamed, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(old) {
        let (before, after) = (&rest[..at], &rest[at + old.len()..]);
        let is_word = !before.ends_with(is_of_a_word) && !after.starts_with(is_of_a_word);
        renamed.push_str(before);
        renamed.push_str(if is_word { new } else { old });
        rest = after;
    }
    renamed + rest
}

/// Lines that were removed and others that were added in their place: those that are alike are held
/// against each other, word by word.
fn mark_changed_words(lines: &mut [DiffLine]) {
    let mut at = 0;
    while at < lines.len() {
        let run =
            |from: usize, tag| lines[from..].iter().take_while(|line| line.tag == tag).count();
        let removed = run(at, DiffTag::Removed);
        let added = run(at + removed, DiffTag::Added);
        if removed == 0 {
            at += added.max(1);
            continue;
        }
        let mut next = at + removed;
        for old in at..at + removed {
            let (one, end) = (lines[old].text(), at + removed + added);
            let ratio = |new: &usize| TextDiff::from_words(&one, lines[*new].text()).ratio();
            let Some(new) = (next..end).find(|new| ratio(new) >= ALIKE) else { continue };
            let other = lines[new].text();
            (lines[old].parts, lines[new].parts) = words(&one, &other);
            next = new + 1;
        }
        at += removed + added;
    }
}

fn words(old: &str, new: &str) -> (Vec<DiffPart>, Vec<DiffPart>) {
    let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
    for change in TextDiff::from_words(old, new).iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => {
                add(&mut of_old, change.value(), false);
                add(&mut of_new, change.value(), false);
            }
            ChangeTag::Delete => add(&mut of_old, change.value(), true),
            ChangeTag::Insert => add(&mut of_new, change.value(), true),
        }
    }
    (of_old, of_new)
}

fn add(parts: &mut Vec<DiffPart>, text: &str, changed: bool) {
    match parts.last_mut() {
        Some(last) if last.changed == changed => last.text.push_str(text),
        _ => parts.push(DiffPart { text: text.to_owned(), changed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladder::RUNGS;

    #[test]
    fn a_diff_holds_the_code_of_both_and_no_comment() {
        for pair in RUNGS.windows(2) {
            let lines = diff(&pair[0], &pair[1]);
            let kept = lines.iter().filter(|line| line.tag != DiffTag::Removed);
            let kept: Vec<String> = kept.map(DiffLine::text).collect();
            assert_eq!(kept.join("\n") + "\n", code(pair[1].source), "{}", pair[1].id);
            let is_comment = |line: &DiffLine| line.text().trim_start().starts_with("//");
            assert!(!lines.iter().any(is_comment), "{}", pair[1].id);
            assert!(!design(pair[0].source).is_empty(), "{}", pair[0].id);
            let (old, new) = (design(pair[0].source), design(pair[1].source));
            let has_old = |line: &DiffLine| with_name(&line.text(), old, "") != line.text();
            assert!(old == new || !lines.iter().any(has_old), "{}: {old}", pair[1].id);
        }
    }

    #[test]
    fn a_rename_alone_changes_nothing_and_a_part_of_a_word_is_no_name() {
        let code = "struct Naive;\nimpl Design for Naive {}\nstruct NaiveRow;\n";
        let renamed = with_name(code, "Naive", "RowLock");
        assert_eq!(renamed, "struct RowLock;\nimpl Design for RowLock {}\nstruct NaiveRow;\n");
        let lines = diff_of(&renamed, &renamed);
        assert!(lines.iter().all(|line| line.tag == DiffTag::Same));
    }

    #[test]
    fn changed_words_are_marked_in_lines_that_are_alike_and_in_no_others() {
        let old = "let stock = read(voucher);\nif stock < 1 {\n";
        let new = "let stock = read_for_update(voucher);\nreturn quite_another_line;\n";
        let lines = diff_of(old, new);
        let marked = |line: &DiffLine| {
            let parts = line.parts.iter().filter(|part| part.changed);
            parts.map(|part| part.text.clone()).collect::<Vec<_>>()
        };
        let marked: Vec<Vec<String>> = lines.iter().map(marked).collect();
        assert_eq!(marked[0], ["read(voucher);"], "{lines:?}");
        assert_eq!(marked[2], ["read_for_update(voucher);"], "{lines:?}");
        assert!(marked[1].is_empty() && marked[3].is_empty(), "{lines:?}");
    }
}

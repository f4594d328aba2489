//! Whether a Chinese line has English left in it.

use ladder::{Invariant, RUNGS, Scenario};

/// Words that are the names of something: the codes of answers, settings of Redis.
const NAMES: [&str; 8] =
    ["ordered", "accepted", "refused", "entered", "appendfsync", "everysec", "fsync", "ms"];

/// The first English word of a Chinese line that is nothing's name. The words of an operating system for a
/// server that is gone stay as they are.
pub fn english_word(line: &str) -> Option<&str> {
    let line = line.split("没有得到响应：").next().unwrap_or(line);
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &str| {
        word.contains('_')
            || NAMES.contains(&word)
            || RUNGS.iter().any(|rung| rung.id == word)
            || Scenario::ALL.iter().any(|scenario| scenario.as_str() == word)
            || Invariant::ALL.iter().any(|invariant| invariant.as_str() == word)
    };
    let mut words =
        words.filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase()));
    words.find(|word| !is_name(word))
}

#[test]
fn an_english_word_is_found_and_a_name_is_none() {
    assert_eq!(english_word("    A      is told: 售罄（sold_out）"), Some("is"));
    for line in
        ["得到响应：买到了（ordered）", "r03_version_cas  herd：许多买家", "SET NX PX 300 毫秒"]
    {
        assert_eq!(english_word(line), None);
    }
}

//! Texts in both languages: a TOML file beside what says them, a line a text.

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::OnceLock;

use serde::Serialize;

use super::language::Language;

/// A file of texts, each `key = ["English", "中文"]`. It is read when the first text is asked for; a page asks
/// for all of its texts when its server starts.
#[derive(Debug)]
pub struct TextFile {
    toml: &'static str,
    texts: OnceLock<[Texts; 2]>,
}

impl TextFile {
    /// Of the content of the file.
    pub const fn new(toml: &'static str) -> Self {
        Self { toml, texts: OnceLock::new() }
    }

    /// What it says in a language.
    ///
    /// # Panics
    /// When a text is not in both languages.
    pub fn of(&self, language: Language) -> &Texts {
        let [english, chinese] = self.texts.get_or_init(|| {
            let file: BTreeMap<String, [String; 2]> = toml::from_str(self.toml)
                .unwrap_or_else(|error| unreachable!("a text is not in both languages: {error}"));
            let mut texts = [BTreeMap::new(), BTreeMap::new()];
            for (key, words) in file {
                // A file is a static: what it says is needed as long as the program runs.
                let key: &'static str = key.leak();
                for (texts, words) in texts.iter_mut().zip(words) {
                    texts.insert(key, &*words.leak());
                }
            }
            texts.map(Texts)
        });
        language.choose(english, chinese)
    }
}

/// Texts in one language, by their keys: what a template says, and what a page hands on to its script.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Texts(BTreeMap<&'static str, &'static str>);

impl Texts {
    /// The text with this key, if there is one.
    pub fn get(&self, key: &str) -> Option<&'static str> {
        self.0.get(key).copied()
    }
}

impl Index<&str> for Texts {
    type Output = &'static str;

    /// # Panics
    /// When there is no such text: a test looks for every key that is written in the code.
    fn index(&self, key: &str) -> &Self::Output {
        self.0.get(key).unwrap_or_else(|| unreachable!("no text is called {key:?}"))
    }
}

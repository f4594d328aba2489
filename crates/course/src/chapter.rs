//! What there is to read: the index, a page a rung, and the pages beside the rungs.

use std::sync::LazyLock;

use ladder::{RUNGS, Rung};
use seckill::http::Language;

/// A page of the course.
pub struct Chapter {
    /// The last part of its address, and the name of its file; the index has none.
    pub name: Option<&'static str>,
    /// The rung that it is about.
    pub rung: Option<&'static Rung>,
    /// Its Markdown, in English and in Chinese.
    markdown: [&'static str; 2],
}

/// The Markdown of a page in both languages.
macro_rules! markdown {
    ($stem:literal) => {
        [
            include_str!(concat!("../../../docs/", $stem, ".md")),
            include_str!(concat!("../../../docs/", $stem, ".zh-CN.md")),
        ]
    };
}

/// What stands beside the rungs.
const BESIDE: [(&str, [&str; 2]); 8] = [
    ("lab", markdown!("ladder/lab")),
    ("interleavings", markdown!("ladder/interleavings")),
    ("glossary", markdown!("ladder/glossary")),
    ("isolation", markdown!("ladder/isolation")),
    ("asynchronous", markdown!("ladder/asynchronous")),
    ("messages", markdown!("ladder/messages")),
    ("efficiency_or_correctness", markdown!("ladder/efficiency_or_correctness")),
    ("bots", markdown!("ladder/bots")),
];

/// All of them: first the index, then the rungs in the ladder's order.
pub static CHAPTERS: LazyLock<Vec<Chapter>> = LazyLock::new(|| {
    let index = Chapter { name: None, rung: None, markdown: markdown!("ladder") };
    let rungs = RUNGS.iter().map(|rung| Chapter {
        name: Some(rung.id),
        rung: Some(rung),
        markdown: [Language::English, Language::Chinese].map(|language| rung.page(language)),
    });
    let beside = BESIDE.map(|(name, markdown)| Chapter { name: Some(name), rung: None, markdown });
    [index].into_iter().chain(rungs).chain(beside).collect()
});

impl Chapter {
    /// The page of a rung.
    pub(super) fn of(rung: &Rung) -> Option<&'static Self> {
        CHAPTERS.iter().find(|chapter| chapter.name == Some(rung.id))
    }

    /// Those that are neither the index nor about a rung.
    pub(super) fn beside() -> impl Iterator<Item = &'static Self> {
        CHAPTERS.iter().filter(|chapter| chapter.name.is_some() && chapter.rung.is_none())
    }

    /// Its Markdown.
    pub fn markdown(&self, language: Language) -> &'static str {
        let [english, chinese] = self.markdown;
        language.choose(english, chinese)
    }

    /// Where the file of its Markdown is.
    pub(super) fn directory(&self) -> &'static str {
        if self.name.is_some() { "docs/ladder" } else { "docs" }
    }

    /// Its address.
    pub(super) fn path(&self) -> String {
        match self.name {
            Some(name) => format!("/lab/course/{name}"),
            None => "/lab/course".to_owned(),
        }
    }

    /// Its address in a language, whatever the browser prefers.
    pub fn address(&self, language: Language) -> String {
        format!("{}?lang={}", self.path(), language.tag())
    }

    /// What a list calls it: "r02: select … for update".
    pub(super) fn title(&self, language: Language) -> String {
        let Some(rung) = self.rung else {
            let heading = self.markdown(language).lines().next().unwrap_or_default();
            return heading.trim_start_matches("# ").to_owned();
        };
        let label = rung.id.split('_').next().unwrap_or_default();
        let colon = language.choose(": ", "：");
        format!("{label}{colon}{}", rung.title(language).replace('`', ""))
    }
}

//! The pages of a rung, one in each language, and what their author says at their heads: its title, the part of
//! the ladder that it begins, schedules to play. In English its lesson is what the head of its file says.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::{RUNGS, Rung, Scenario};
use seckill::http::Language;

/// The head of a page: TOML in a comment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageHead {
    /// The part of the ladder that begins with this rung.
    part: Option<String>,
    title: String,
    /// The chapter of the course 黑马点评 that it is, if it has one.
    chapter: Option<String>,
    idea: Option<String>,
    holds: Option<String>,
    breaks_when: Option<String>,
    next: Option<String>,
    /// In the English page.
    #[serde(default)]
    lessons: Vec<Lesson>,
}

/// A schedule that shows something: a scenario that two buyers, a consumer, the end of a lease and a kill are
/// enough for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// The rung.
    #[serde(skip_deserializing)]
    pub rung: &'static str,
    /// What happens. Whether the rung withstands it is what the rung claims.
    pub scenario: Scenario,
    /// The steps.
    pub schedule: String,
    /// As in a plan.
    pub users: u8,
    /// As in a plan.
    pub processes: u8,
    /// As in a plan.
    pub stock: i32,
}

/// The head of a page, and the page below it.
fn split(page: &str) -> Option<(&str, &str)> {
    page.strip_prefix("<!-- rung\n")?.split_once("\n-->\n")
}

static HEADS: LazyLock<BTreeMap<&str, [PageHead; 2]>> = LazyLock::new(|| {
    let heads = |rung: &Rung| {
        let mut heads = rung.pages.map(|page| {
            match split(page).map(|(head, _)| toml::from_str::<PageHead>(head)) {
                Some(Ok(head)) => head,
                wrong => unreachable!("the head of a page of {}: {wrong:?}", rung.id),
            }
        });
        heads[0].lessons.iter_mut().for_each(|lesson| lesson.rung = rung.id);
        (rung.id, heads)
    };
    RUNGS.iter().map(heads).collect()
});

/// The parts of the ladder: rungs that belong together.
pub fn parts() -> impl Iterator<Item = &'static [Rung]> {
    RUNGS.chunk_by(|_, next| next.head(Language::English).part.is_none())
}

/// Every schedule that shows something, in the order of the rungs.
pub fn lessons() -> impl Iterator<Item = &'static Lesson> {
    RUNGS.iter().flat_map(Rung::lessons)
}

impl Rung {
    /// Its page, in Markdown, without the head.
    pub fn page(&self, language: Language) -> &'static str {
        split(self.pages[language as usize]).map_or("", |(_, page)| page)
    }

    fn head(&self, language: Language) -> &'static PageHead {
        &HEADS[self.id][language as usize]
    }

    /// Its title, in Markdown: "a mutex per user, inside the transaction".
    pub fn title(&self, language: Language) -> &'static str {
        &self.head(language).title
    }

    /// The title of the part of the ladder that it belongs to.
    pub fn part(&self, language: Language) -> &'static str {
        let before = RUNGS.iter().rev().skip_while(|rung| rung.id != self.id);
        let mut titles = before.filter_map(|rung| rung.head(language).part.as_deref());
        titles.next().unwrap_or_else(|| unreachable!("the first rung begins a part"))
    }

    /// The chapter of the course 黑马点评 that it is, in Markdown; `None` for what the course does not have.
    pub fn chapter(&self, language: Language) -> Option<&'static str> {
        self.head(language).chapter.as_deref()
    }

    /// What it does.
    pub fn idea(&self, language: Language) -> String {
        self.head(language).idea.clone().unwrap_or_else(|| self.line("Idea"))
    }

    /// What it keeps, and for how long.
    pub fn holds(&self, language: Language) -> String {
        self.head(language).holds.clone().unwrap_or_else(|| self.line("Holds"))
    }

    /// Where it fails.
    pub fn breaks_when(&self, language: Language) -> String {
        self.head(language).breaks_when.clone().unwrap_or_else(|| self.line("Breaks when"))
    }

    /// What comes after it, and why.
    pub fn next_step(&self, language: Language) -> String {
        self.head(language).next.clone().unwrap_or_else(|| self.line("Next"))
    }

    /// Schedules that show something of it.
    pub fn lessons(&self) -> &'static [Lesson] {
        &self.head(Language::English).lessons
    }
}

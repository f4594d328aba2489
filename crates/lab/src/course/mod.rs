//! The course in words, in both languages: `titles` of the rungs; `parts` of the ladder; `stories` of the scenarios,
//! and the promises; `nudges` for players; `explored`, what every interleaving came to.

mod explored;
mod nudges;
mod parts;
mod stories;
mod titles;

pub use explored::{ExploredSchedule, ExploredSetting, explored};
pub use nudges::nudge;
pub use parts::{LadderPart, PARTS};
pub use stories::{promise, story};
pub use titles::{breaks_when, course_chapter, idea, page, title};

use seckill::http::Language;

pub(crate) const fn in_language(
    language: Language,
    english: &'static str,
    chinese: &'static str,
) -> &'static str {
    match language {
        Language::English => english,
        Language::Chinese => chinese,
    }
}

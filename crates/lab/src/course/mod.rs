//! What players are told beside what the ladder says: a nudge towards a scenario, in `nudges.toml`; and what every
//! interleaving came to, `explored`.

mod explored;

pub use explored::{ExploredSchedule, ExploredSetting, explored};

use ladder::Scenario;
use seckill::http::{Language, TextFile};

static NUDGES: TextFile = TextFile::new(include_str!("nudges.toml"));

/// The nudge towards a scenario; `None` where the player has no schedule for it.
pub fn nudge(scenario: Scenario, language: Language) -> Option<&'static str> {
    NUDGES.of(language).get(scenario.as_str())
}

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

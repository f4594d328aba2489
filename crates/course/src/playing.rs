//! How to see what a block of the course shows: in the player where it has the schedule, else in a terminal.

use ladder::{Lesson, Rung, Scenario};
use maud::{Markup, html};
use seckill::http::Language;

use super::TEXTS;

/// The rung in the player, at its beginning.
pub(super) fn rung_address(rung: &Rung, language: Language) -> String {
    format!("/lab?rung={}&lang={}", rung.id, language.tag())
}

/// A scenario on a rung.
pub(super) fn scenario(rung: &Rung, scenario: Scenario, language: Language) -> Markup {
    let texts = TEXTS.of(language);
    let lesson = rung.lessons().iter().find(|lesson| lesson.scenario == scenario);
    let Some(lesson) = lesson else {
        let flag = language.choose("", " --lang zh");
        return command(&format!("seckill lab replay {} {scenario}{flag}", rung.id), language);
    };
    html! {
        p.play {
            a href=(schedule_address(lesson, language)) {
                span aria-hidden="true" { "▶ " } (texts["play"]) " " code { (scenario) }
            }
        }
    }
}

/// All that the player has of a rung.
pub(super) fn lessons(rung: &Rung, language: Language) -> Markup {
    html! {
        @for lesson in rung.lessons() {
            a href=(schedule_address(lesson, language)) { code { (lesson.scenario) } }
        }
    }
}

fn schedule_address(lesson: &Lesson, language: Language) -> String {
    format!(
        "/lab?rung={}&users={}&processes={}&stock={}&schedule={}&lang={}",
        lesson.rung,
        lesson.users,
        lesson.processes,
        lesson.stock,
        lesson.schedule,
        language.tag()
    )
}

/// What `seckill lab isolation` prints of a case, or of all of them.
pub(super) fn isolation(case: Option<&str>, language: Language) -> Markup {
    let case = case.map(|case| format!(" {case}")).unwrap_or_default();
    command(&format!("seckill lab isolation{case}"), language)
}

/// A line to be copied; `course.js` adds the button.
fn command(command: &str, language: Language) -> Markup {
    let texts = TEXTS.of(language);
    html! { p.play { span { (texts["play_in_terminal"]) } " " code.command { (command) } } }
}

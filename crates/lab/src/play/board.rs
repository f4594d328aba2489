//! What the board of a demonstration has more: the way to the stage, and crowds.

use maud::{Markup, html};
use seckill::http::{TextFile, Texts};
use seckill::pages::{BoardAdditions, field};
use serde_json::json;

use super::crowd_sender::{MAX_ATTEMPTS, MAX_USERS};

/// The texts of what is added to the board.
static TEXTS: TextFile = TextFile::new(include_str!("board.toml"));

/// What is added. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn additions(admin_phone: Option<&'static str>) -> BoardAdditions {
    BoardAdditions {
        module: "board_play.js",
        texts: |language| json!(TEXTS.of(language)),
        top: |language| watch_link(TEXTS.of(language)),
        panel: |language| crowd(TEXTS.of(language)),
        admin_phone,
    }
}

fn watch_link(texts: &Texts) -> Markup {
    html! {
        p.note.stage { (texts["stage_before"]) " " a href="/watch" { (texts["stage_link"]) } }
    }
}

fn crowd(texts: &Texts) -> Markup {
    html! {
        section #crowd-card.panel aria-labelledby="crowd-title" {
            h2 #crowd-title { (texts["crowd_title"]) }
            p { (texts["crowd_about"]) }
            form #crowd-form novalidate {
                (field("users", texts["users"], html! {
                    input #users name="users" type="number" min="1" max=(MAX_USERS) step="1"
                        required value="1000" aria-describedby="users-error";
                }))
                (field("attempts", texts["attempts"], html! {
                    input #attempts name="attempts" type="number" min="1" max=(MAX_ATTEMPTS)
                        step="1" required value="5" aria-describedby="attempts-error";
                }))
                button #send-crowd.primary type="submit" { (texts["crowd_button"]) }
                button.quiet #stop-crowd type="button" disabled { (texts["crowd_stop"]) }
            }
            progress #crowd-progress max="1" value="0" aria-label=(texts["crowd_progress"]) hidden {}
            p #crowd-sale.state {}
            p #crowd-state.state role="status" title=(texts["latency_note"]) {}
            div #crowd-verdict {}
        }
    }
}

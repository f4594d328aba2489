//! What the board of a demonstration has more: the way to the show.

use maud::{Markup, html};
use seckill::pages::BoardAdditions;
use seckill::texts;

texts! {
    /// The texts of what is added to the board.
    Play {
        stage_before: "To see a whole flash sale, from the countdown to the verdict:", "想看一场完整的秒杀，从倒计时到结论：";
        stage_link: "watch one", "观看秒杀";
    }
}

/// What is added. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn additions(admin_phone: Option<&'static str>) -> BoardAdditions {
    BoardAdditions {
        top: |language| watch_link(Play::of(language)),
        admin_phone,
    }
}

fn watch_link(texts: &Play) -> Markup {
    html! {
        p.note.stage { (texts.stage_before) " " a href="/watch" { (texts.stage_link) } }
    }
}

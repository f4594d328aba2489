//! The server's shop and board, with what a demonstration has beside them.

use axum::Router;
use maud::html;
use seckill::http::Language;
use seckill::pages::page::{HtmlPage, PageFiles};
use seckill::pages::{Site, board, storefront};
use seckill::texts;

use super::doors::SHOP;

texts! {
    /// The texts beside the board.
    BoardDemo {
        stage_before: "To see a whole flash sale, from the countdown to the verdict:", "想看一场完整的秒杀，从倒计时到结论：";
        stage_link: "watch one", "观看秒杀";
        login: "This server is for demonstration: its administrator is filled in, and the code is shown here instead of being sent.", "这是演示服务器：管理员手机号已填好，验证码直接显示在此处，不会发送短信。";
    }
}

/// The pages. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn routes(site: &Site, admin_phone: Option<&str>) -> Router {
    let shop = PageFiles::new(|language| shop(site, language));
    let board = PageFiles::new(|language| board(site, language, admin_phone));
    Router::new().route(SHOP, shop.route()).route("/board", board.route())
}

fn shop(site: &Site, language: Language) -> String {
    let page = storefront::page(language);
    let main = html! {
        (page.main)
        script type="module" src=(site.asset("shop_place.js")) {}
    };
    HtmlPage { path: SHOP, main, ..page }.render(site)
}

fn board(site: &Site, language: Language, admin_phone: Option<&str>) -> String {
    let texts = BoardDemo::of(language);
    let page = board::page(language);
    let main = html! {
        p #show-note.note { (texts.stage_before) " " a href="/watch" { (texts.stage_link) } }
        (page.main)
        @if let Some(phone) = admin_phone {
            script #demo type="module" src=(site.asset("board_demo.js"))
                data-phone=(phone) data-login=(texts.login) {}
        }
    };
    HtmlPage { main, ..page }.render(site)
}

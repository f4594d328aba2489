//! `/` of a demonstration: three doors, to watch, to break, to buy.

use std::sync::Arc;

use axum::Router;
use maud::{Markup, html};
use seckill::http::Language;
use seckill::pages::page::{HtmlPage, PageFiles};
use seckill::pages::{NavigationEntry, Site};
use seckill::texts;

/// Where the shop is in a demonstration.
pub(super) const SHOP: &str = "/shop";

/// The pages of a demonstration.
pub(super) const NAVIGATION: [NavigationEntry; 5] = [
    ("/watch", ["Watch", "观看"]),
    (SHOP, ["Shop", "商店"]),
    ("/board", ["Board", "看板"]),
    ("/lab", ["Ladder", "阶梯"]),
    ("/lab/course", ["Course", "教程"]),
];

texts! {
    /// The texts of the first page.
    Doors {
        title: "A flash sale, on this machine", "在本机上看一场秒杀";
        lead: "2,000 vouchers, 20,000 buyers, all at once: on a real server, a real PostgreSQL and a real Redis.",
            "2000 张券，2 万名买家同时抢：真实的服务器、真实的 PostgreSQL 和 Redis。";
        watch: "Watch a sale", "看一场抢购";
        watch_about: "One button. 20,000 buyers rush, and an audit says whether anything was sold twice. Then the same crowd meets a wrong design, beside it.",
            "只需按一下按钮：2 万名买家蜂拥而来，审计给出结论。再让同一批人去抢一个错误的设计，两边对照着看。";
        break_it: "Break a design", "打破一个设计";
        break_about: "From “read the stock, write it back” to a quorum lock: you are the scheduler of two buyers, and look for the order of steps that breaks each design.",
            "从“读库存、写回去”到多数派的锁：由你来调度两个买家，找出打破每个设计的步骤顺序。";
        buy: "Buy something", "买点什么";
        buy_about: "The shop as a customer sees it, with orders, payments in a sandbox, and refunds. No text message is sent: the login code is shown.",
            "顾客眼中的商店：下单、沙箱支付、退款。不发短信，验证码直接显示。";
        also: "For operators: ", "运维人员请看：";
        board: "the board", "看板";
        also_course: ". For readers: ", "。想读文章请看：";
        course: "the course", "教程";
        end: ".", "。";
    }
}

/// The page.
pub(super) fn routes(site: &Arc<Site>) -> Router {
    Router::new().route("/", PageFiles::new(|language| render(site, language)).route())
}

fn render(site: &Site, language: Language) -> String {
    let texts = Doors::of(language);
    let page = HtmlPage {
        language,
        title: texts.title,
        path: "/",
        styles: &["doors.css"],
        libraries: &[],
        modules: &["page.js"],
        needs_scripts: false,
        texts: &(),
        main: content(texts),
    };
    page.render(site)
}

fn content(texts: &Doors) -> Markup {
    let doors = [
        ("/watch", "watch", texts.watch, texts.watch_about),
        ("/lab", "break", texts.break_it, texts.break_about),
        (SHOP, "buy", texts.buy, texts.buy_about),
    ];
    html! {
        h1 { (texts.title) }
        p.lead { (texts.lead) }
        ul.doors {
            @for (path, id, name, about) in doors {
                li {
                    a.door id=(id) href=(path) {
                        svg.sign viewBox="0 0 96 40" aria-hidden="true" { (sign(id)) }
                        strong { (name) }
                        span { (about) }
                    }
                }
            }
        }
        p.also {
            (texts.also) a href="/board" { (texts.board) } (texts.also_course)
            a href="/lab/course" { (texts.course) } (texts.end)
        }
    }
}

/// A picture of what is behind the door: dots of which some are gold; two steps that cross; a ticket.
fn sign(door: &str) -> Markup {
    match door {
        "watch" => html! {
            @for at in 0..36 {
                circle.gold[at % 5 == 2] cx=(5 + at % 12 * 8) cy=(8 + at / 12 * 12) r="2.6" {}
            }
        },
        "break" => html! {
            path.lane d="M4 10h30l20 20h38" {}
            path.lane.other d="M4 30h30l20-20h38" {}
        },
        _ => html! {
            path.ticket d="M14 6h68v9a5 5 0 0 0 0 10v9H14v-9a5 5 0 0 0 0-10z" {}
            path.lane.other d="M56 9v22" {}
        },
    }
}

//! `/watch`: the sale as one watches it.

use std::sync::Arc;

use axum::Router;
use maud::{Markup, html};
use serde::Serialize;

use super::director::ShowSize;
use super::show::CrowdKind;
use crate::course::{self, in_language};
use crate::play::doors::SHOP;
use ladder::{RUNGS, Rung};
use seckill::http::Language;
use seckill::pages::Site;
use seckill::pages::page::{HtmlPage, PageFiles};
use seckill::texts;

texts! {
    /// The texts of the page. `{…}` is filled in by its scripts.
    ShowTexts {
        title: "Watch a sale", "看一场抢购";
        start: "Start the sale", "开始抢购";
        again: "Again", "再来一次";
        against: "The same crowd against", "让同一批人去抢";
        against_button: "Show it beside", "放在旁边对照";
        slow: "A slow crowd", "慢速人群";
        slow_link: "Buy against {users} others", "和 {users} 人一起抢";
        breaks: "Breaks when: ", "什么时候打破：";
        ours: "This server", "本服务器";
        left_before: "", "剩余";
        left: "left of {stock}", "共 {stock}";
        idle: "{users} buyers want {stock} vouchers, and each tries three times at once.", "{users} 名买家抢 {stock} 张券，每人同时尝试三次。";
        idle_slow: "{users} buyers come one after another to {stock} vouchers. Log in to the shop now, and buy when the sale begins.", "{users} 名买家陆续前来抢 {stock} 张券。请先登录商店，开抢后下单。";
        preparing: "The buyers are being made …", "正在创建买家……";
        preparing_rung: "A PostgreSQL, a Redis and two processes that sell by this design are being started …", "正在启动 PostgreSQL、Redis 和两个按此设计售卖的进程……";
        countdown: "The sale begins in a moment.", "即将开抢。";
        selling: "{done} of {total} attempts are over.", "已完成 {done} / {total} 次尝试。";
        auditing: "All attempts are over. The database is being audited …", "全部尝试已结束，正在审计数据库……";
        auditing_early: "The time is up: {done} of {total} attempts are over. The database is being audited …", "时间已到，完成了 {done} / {total} 次尝试，正在审计数据库……";
        sentence: "{sold} sold. {oversold} too many. {duplicates} twice. {refused} refused. {seconds}\u{a0}s.", "售出 {sold}，超卖 {oversold}，重复 {duplicates}，拒绝 {refused}，用时 {seconds}\u{a0}秒。";
        also_undersold: "{count} left unsold though they were wanted.", "有人想买却没卖出 {count} 张。";
        also_lost: "{count} promised and not there.", "已确认却不存在的订单 {count} 个。";
        also_untold: "{count} orders that no buyer was told of.", "没有告知任何买家的订单 {count} 个。";
        also_unexpected: "{count} attempts without a proper answer.", "未得到正常响应的尝试 {count} 次。";
        also_not_made: "{count} attempts were never made: the time was up.", "因时间已到而没有发起的尝试 {count} 次。";
        reasons: "The judge says: {reasons}.", "结论不成立，评判程序给出的原因（英文）：{reasons}。";
        forbidden: "A sale is started on the machine on which the server runs. This page only watches.", "只有在服务器所在的机器上才能开始抢购，本页只能观看。";
        dots: "One dot a buyer", "每个点是一名买家";
        dot_waiting: "waiting", "等待";
        dot_bought: "bought", "买到";
        dot_refused: "refused", "被拒";
        dot_wrong: "sold what was not there, or twice", "超卖或重复售出";
        plot: "Answers (above) and orders (below) in each tenth of a second", "每十分之一秒的响应（上）与订单（下）";
        answers: "Answers/s", "响应/秒";
        orders: "Orders/s", "订单/秒";
        peak: "peak {peak}", "峰值 {peak}";
        p50: "Median wait", "等待中位数";
        p99: "p99", "p99";
        failure_database: "The database cannot be reached: no sale was begun.", "无法连接数据库，抢购没有开始。";
        failure_crowd: "The crowd could not be sent: {detail}.", "无法派出人群，原因见服务器日志。";
        failure_crowd_died: "The process that sends the crowd has died, and the show with it.", "派出人群的进程已崩溃，演示中止。";
        failure_timed_out: "The show took too long, and was broken off.", "演示超时，已中止。";
        failure_audit: "The database went away before it could be audited: nobody knows what was sold.", "审计之前数据库已不可用，无法得知售出情况。";
        failure_missing: "This design cannot run on this machine: {detail}.", "本机缺少运行这个设计所需的程序，请运行 scripts/setup.sh lab 安装。";
        failure_rung: "This design could not be shown to its end: {detail}.", "这个设计的演示中途失败，原因见服务器日志。";
        failure_defect: "The show met a defect, and ended.", "演示遇到缺陷而中止。";
        gone: "The server is gone, and the show with it. This page waits for it to come back.", "服务器已断开，演示随之中止；本页正在等待它恢复。";
        full: "Too many pages are watching. This one tries again in a moment.", "观看的页面已达上限，稍后自动重试。";
        no_answer: "The server did not answer.", "服务器没有响应。";
    }
}

/// What the page's script is given.
#[derive(Serialize)]
struct ShowPageData {
    #[serde(flatten)]
    texts: &'static ShowTexts,
    /// Buyers and vouchers of a rush.
    users: u32,
    stock: i32,
    rungs: Vec<ShowRung>,
}

/// A design that may stand beside this server.
#[derive(Serialize)]
struct ShowRung {
    id: &'static str,
    title: String,
    breaks: String,
}

fn rung(rung: &'static Rung, language: Language) -> ShowRung {
    let label = rung.id.split('_').next().unwrap_or_default();
    let title = course::title(rung, language).replace('`', "");
    let colon = in_language(language, ": ", "：");
    let breaks = course::breaks_when(rung, language).replace('`', "");
    ShowRung { id: rung.id, title: format!("{label}{colon}{title}"), breaks }
}

/// The page.
pub(super) fn routes(site: &Arc<Site>, size: ShowSize) -> Router {
    let files = PageFiles::new(|language| {
        let crowd = size.crowd(CrowdKind::Rush, 0);
        let data = ShowPageData {
            texts: ShowTexts::of(language),
            users: crowd.users,
            stock: crowd.stock,
            rungs: RUNGS.iter().map(|of| rung(of, language)).collect(),
        };
        render(site, language, &data)
    });
    Router::new().route("/watch", files.route())
}

fn render(site: &Site, language: Language, data: &ShowPageData) -> String {
    let page = HtmlPage {
        language,
        title: data.texts.title,
        path: "/watch",
        styles: &["stage.css"],
        libraries: &[],
        modules: &["stage.js"],
        needs_scripts: true,
        texts: data,
        main: content(data.texts, &data.rungs),
    };
    page.render(site)
}

fn content(texts: &ShowTexts, rungs: &[ShowRung]) -> Markup {
    html! {
        div.controls {
            h1 { (texts.title) }
            // Both texts have the room of the longer one: no button moves under the finger.
            button #start.primary.both type="button" disabled {
                span { (texts.start) }
                span.again { (texts.again) }
            }
            button #slow.quiet type="button" disabled { (texts.slow) }
            a #shop-link.primary.button href=(SHOP) target="_blank" hidden {}
        }
        div #beside.beside hidden {
            label for="design" { (texts.against) }
            select #design aria-describedby="breaks" {
                @for rung in rungs { option value=(rung.id) { (rung.title) } }
            }
            button #against.quiet type="button" disabled { (texts.against_button) }
            p #breaks.breaks {}
        }
        p #message.message role="status" data-kind="bad" hidden {}
        div #stage.stage data-phase="idle" {
            @for at in ["ours", "other"] { (half(texts, at)) }
        }
        ul.legend aria-label=(texts.dots) {
            li.caption aria-hidden="true" { (texts.dots) ": " }
            @for (kind, name) in [
                ("waiting", texts.dot_waiting), ("bought", texts.dot_bought),
                ("refused", texts.dot_refused), ("wrong", texts.dot_wrong),
            ] {
                li data-dot=(kind) { (name) }
            }
        }
    }
}

fn half(texts: &ShowTexts, id: &str) -> Markup {
    html! {
        section.half id=(id) hidden[id == "other"] aria-labelledby={ (id) "-title" } {
            div.head {
                h2 id={ (id) "-title" } { @if id == "ours" { (texts.ours) } }
                p.left {
                    @if !texts.left_before.is_empty() { span { (texts.left_before) } " " }
                    b.number {} " " span.of {}
                }
            }
            div.field {
                canvas.dots role="img" aria-label=(texts.dots) {}
                p.count aria-hidden="true" {}
            }
            p.sentence role="status" {}
            div.figures {
                canvas.plot role="img" aria-label=(texts.plot) title=(texts.plot) {}
                dl {
                    @for (figure, name) in [
                        ("answers", texts.answers), ("orders", texts.orders),
                        ("p50", texts.p50), ("p99", texts.p99),
                    ] {
                        div { dt { (name) } dd data-figure=(figure) { "–" } }
                    }
                }
            }
        }
    }
}

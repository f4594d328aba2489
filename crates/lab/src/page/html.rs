//! `/lab`: two buyers on a rung, and the reader of the page is their scheduler.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get};
use maud::{Markup, html};
use serde::Serialize;

use super::player::Player;
use super::rung_summary::{self, RungSummary};
use seckill::http::Language;
use seckill::pages::Site;
use seckill::pages::page::{HtmlPage, PageFiles, PageLanguage};
use seckill::texts;

texts! {
    /// The texts of the page.
    LabTexts {
        title: "The ladder, step by step", "阶梯：一步一步地演";
        lead: "You are the scheduler. Press A or B: that buyer takes its next step on a real PostgreSQL and a real Redis.",
            "你就是调度器。按 A 或 B，那个买家就在真实的 PostgreSQL 和 Redis 上走一步。";
        rung: "Rung", "级";
        previous: "Previous rung", "上一级";
        next: "Next rung", "下一级";
        settings: "Buyers", "买家";
        users: "Users", "用户";
        one_user: "one user, two requests", "一个用户，两个请求";
        two_users: "two users", "两个用户";
        processes: "Processes", "进程";
        one_process: "one process", "一个进程";
        two_processes: "two processes", "两个进程";
        stock: "Stock", "库存";
        lessons: "Show me:", "演示：";
        no_lessons: "This rung writes later, by a consumer; the player has none. Its stories: seckill lab replay", "这一级由消费者稍后写库，这里演不了。它的故事：seckill lab replay";
        lesson_breaks: "breaks {promise}", "打破 {promise}";
        lesson_holds: "holds", "守住";
        idea: "Idea", "做法";
        breaks_when: "Breaks when", "什么时候打破";
        claims: "Claims to keep", "声明守住";
        claims_nothing: "nothing", "什么也不声明";
        step: "Step", "走一步";
        lease: "End the lease", "让租期结束";
        undo: "Undo", "撤销";
        redo: "Redo", "重做";
        restart: "Restart", "从头再来";
        keys: "Keys: a, b, l (end the lease), u (undo), r (redo), n and p (next and previous rung). The address of this page holds the schedule: send it to anybody who should see it.",
            "按键：a、b、l（让租期结束）、u（撤销）、r（重做）、n 和 p（下一级、上一级）。本页地址里就有整个调度：把它发给别人，别人看到的就是这一步。";
        buyer: "user {user}, process {process}", "用户 {user}，进程 {process}";
        not_begun: "has not begun", "还没开始";
        through: "through", "已结束";
        source: "Source", "源代码";
        state: "Now", "现在";
        row: "The voucher's row", "优惠券这一行";
        row_is: "stock {stock} of {initial_stock}", "库存 {stock}，初始 {initial_stock}";
        orders: "Orders, committed", "已提交的订单";
        no_orders: "none", "没有";
        order_is: "{name}: user {user}", "订单 {number}：用户 {user}";
        locks: "Locks", "锁";
        no_locks: "none is held", "没有人持有";
        lock_none: "this rung takes no lock", "这一级不用锁";
        lock_database: "in the transaction that writes: PostgreSQL keeps it", "锁在写库的事务里：由 PostgreSQL 保管";
        lock_mutex: "a mutex in the memory of a process: no server shows it", "锁在进程的内存里：没有服务器看得见";
        held_by: "held by {holder}", "持有者 {holder}";
        held_by_nobody: "does not say whose it is", "没写是谁的";
        holds_times: "holds {holds}", "次数 {holds}";
        lease_left: "lease ends in {seconds} s", "租期还剩 {seconds} 秒";
        no_lease: "never ends by itself", "永不到期";
        place_first: "first in the queue", "排在最前";
        place: "in the queue", "在排队";
        timeline: "Timeline", "时间线";
        nothing_yet: "Nothing has happened yet.", "还什么都没发生。";
        broken: "Broken: {promise}", "打破：{promise}";
        kept: "Both are through, and no promise was broken.", "两个都结束了，没有打破任何承诺。";
        not_claimed: "This rung does not claim to keep it.", "这一级没有声明守住它。";
        was_claimed: "This rung claims to keep it: that is a defect.", "这一级声明守住它：这是缺陷。";
        read_more: "Read the course", "读教程";
        diff_previous: "What this rung changes against {rung}", "这一级相对 {rung} 改了什么";
        diff_next: "What {rung} changes", "{rung} 改了什么";
        lines_hidden: "{count} lines unchanged", "{count} 行没有变化";
        starting: "Starting a PostgreSQL and a Redis for this session: a few seconds…", "正在为这次会话启动 PostgreSQL 和 Redis：几秒钟……";
        failed: "This cannot be played now.", "现在演不了。";
        try_again: "Try again", "再试一次";
        cannot_go_on: "The schedule stops here: {why}.", "调度到这里走不下去了：{why}。";
        no_oversell: "orders of a voucher never exceed its stock", "不超卖：订单数永远不超过初始库存";
        one_per_user: "one user holds at most one order of a voucher", "一人一单：一个用户最多有一张订单";
        no_undersell: "while stock remains, nobody is told that it is sold out", "不少卖：还有库存时，不会告知售罄";
        no_outage: "one lock server is down, and a first-time buyer is still served", "不停摆：锁的服务器停了一台，首次购买的人照样买得到";
        no_lost_order: "an acknowledged order is in the database", "不丢单：确认过的订单一定在数据库里";
        no_lockout: "a dead holder locks nobody out for longer than a lease", "不锁死：持有者死了，最多锁住一个租期";
        no_self_deadlock: "code that holds the lock may call code that takes it", "不自锁：持有锁的代码可以再次获取同一把锁";
        kind_stock_read: "", "读到库存：{detail}";
        kind_orders_counted: "", "数这个用户的订单：{detail}";
        kind_key_set: "", "发出了 {detail}，下一条命令还没发";
        kind_locked: "", "拿到锁（{detail}）";
        kind_missed: "", "发现锁被占着，准备等待";
        kind_last_check: "", "最后看一次锁还是不是自己的（{detail}）";
        kind_committing: "", "即将提交：{detail}";
        kind_releasing: "", "即将释放锁（{detail}）";
        kind_waits_in_process: "", "等待对方释放锁";
        kind_waits_in_database: "", "等待另一个事务持有的锁";
        kind_ordered: "", "得到响应：买到了（ordered）";
        kind_sold_out: "", "得到响应：售罄（sold_out）";
        kind_already_bought: "", "得到响应：已经买过（already_bought）";
        kind_order_in_progress: "", "得到响应：订单正在处理（order_in_progress）";
        kind_lost_lock: "", "发现锁丢了，什么也没写";
        kind_failed: "", "没有得到响应：{detail}";
        kind_lease_ended: "", "{detail} 上的租期结束，就像时间到了一样";
    }
}

/// What the page's script is given.
#[derive(Serialize)]
struct PageData {
    #[serde(flatten)]
    texts: &'static LabTexts,
    rungs: Vec<RungSummary>,
}

/// The page of this site.
pub(super) fn route(site: &Arc<Site>) -> MethodRouter<Player> {
    let files = Arc::new(PageFiles::new(|language| {
        let data = PageData { texts: LabTexts::of(language), rungs: rung_summary::rungs(language) };
        render(site, language, &data)
    }));
    get(move |language: PageLanguage, headers: HeaderMap| {
        let files = Arc::clone(&files);
        async move { files.answer(language, &headers).await }
    })
}

fn render(site: &Site, language: Language, data: &PageData) -> String {
    let page = HtmlPage {
        language,
        title: data.texts.title,
        path: "/lab",
        styles: &["lab.css"],
        libraries: &[],
        modules: &["lab.js"],
        needs_scripts: true,
        texts: data,
        main: content(data.texts, &data.rungs),
    };
    page.render(site)
}

fn content(texts: &LabTexts, rungs: &[RungSummary]) -> Markup {
    html! {
        h1 { (texts.title) }
        p.lead { (texts.lead) }
        (settings(texts, rungs))
        section #rung-said.rung-said {}
        section #lessons.lessons aria-label=(texts.lessons) {}
        div #player.player aria-busy="true" {
            div.buyers {
                @for name in ["A", "B"] { (buyer(texts, name)) }
                div.moves {
                    button #lease type="button" aria-keyshortcuts="l" disabled { (texts.lease) }
                    button #undo type="button" aria-keyshortcuts="u" disabled { (texts.undo) }
                    button #redo type="button" aria-keyshortcuts="r" disabled { (texts.redo) }
                    button #restart type="button" disabled { (texts.restart) }
                    output #schedule.schedule {}
                }
            }
            div #message.message role="alert" hidden {}
            div #verdict.verdict role="status" hidden {}
            section.source aria-labelledby="source-title" {
                h2 #source-title { (texts.source) }
                ol #source tabindex="0" aria-labelledby="source-title" {}
            }
            div.beside {
                section aria-labelledby="state-title" {
                    h2 #state-title { (texts.state) }
                    dl #state.state {}
                }
                section aria-labelledby="timeline-title" {
                    h2 #timeline-title { (texts.timeline) }
                    ol #timeline.timeline {}
                    p #last.unseen role="status" {}
                }
            }
        }
        details #diff-previous.diff { summary {} }
        details #diff-next.diff { summary {} }
        p.keys { (texts.keys) }
    }
}

fn settings(texts: &LabTexts, rungs: &[RungSummary]) -> Markup {
    let choice = |name: &str, label: &str, options: [&str; 2]| {
        html! {
            label { (label)
                select id=(name) {
                    @for (value, option) in (1..).zip(options) { option value=(value) { (option) } }
                }
            }
        }
    };
    html! {
        form #settings.settings {
            div.rung-choice {
                button #previous type="button" aria-keyshortcuts="p" aria-label=(texts.previous)
                    title=(texts.previous) { "←" }
                label { span.unseen { (texts.rung) }
                    select #rung {
                        @for rung in rungs { option value=(rung.id) { (rung.title) } }
                    }
                }
                button #next type="button" aria-keyshortcuts="n" aria-label=(texts.next)
                    title=(texts.next) { "→" }
            }
            fieldset {
                legend.unseen { (texts.settings) }
                (choice("users", texts.users, [texts.one_user, texts.two_users]))
                (choice("processes", texts.processes, [texts.one_process, texts.two_processes]))
                label { (texts.stock)
                    select #stock { @for stock in 0..=9 { option { (stock) } } }
                }
            }
        }
    }
}

fn buyer(texts: &LabTexts, name: &str) -> Markup {
    html! {
        section.buyer data-buyer=(name) aria-label=(name) {
            button.step data-step=(name) type="button" aria-keyshortcuts=(name.to_lowercase())
                disabled { b { (name) } " " span { (texts.step) } }
            div {
                p.who {}
                p.at {}
            }
        }
    }
}

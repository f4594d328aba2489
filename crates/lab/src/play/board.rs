//! What the board of a demonstration has more: the way to the stage, and crowds.

use maud::{Markup, html};
use seckill::pages::{BoardAdditions, field};
use seckill::texts;
use serde_json::json;

use super::crowd_sender::{MAX_ATTEMPTS, MAX_USERS};

texts! {
    /// The texts of what is added to the board.
    Play {
        stage_before: "To see a whole flash sale, from the countdown to the verdict:", "想看一场完整的秒杀，从倒计时到结论：";
        stage_link: "watch one", "观看秒杀";
        promise_lost: "Every acknowledged order is in the database", "已确认的订单都在数据库中";
        promise_untold: "Every order was told to its buyer", "每个订单都已告知买家";
        promise_undersold: "Nobody refused while stock was left", "有库存时无人被拒绝";
        promise_unexpected: "Every attempt was answered properly", "每次请求都得到正常响应";
        crowd_title: "Crowd", "模拟人群";
        crowd_about: "Made-up buyers try to buy from the chosen sale, all at once, from a process of their own.", "由独立进程派出模拟买家，同时抢购所选活动。";
        users: "Buyers", "买家";
        attempts: "Attempts of each", "每人尝试次数";
        crowd_button: "Start a crowd", "派出人群";
        crowd_stop: "Stop", "停止";
        crowd_progress: "Attempts that are over", "已完成的尝试";
        crowd_sale: "At {title} ({id}): {users} buyers, {attempts} attempts each.", "活动 {title}（{id}）：{users} 名买家，每人尝试 {attempts} 次。";
        crowd_unknown: "The server does not answer: how far the crowd is, is not known.", "服务器没有响应，暂时不知道人群的进度。";
        latency_note: "A crowd counts the time of an answer from when its request was due, at the client; the figures above are the server's own.", "人群在客户端计时，从请求应发出的时刻算起；上方的数据由服务器自己计时。";
        phase_preparing: "The buyers are being made; the sale is awaited.", "正在创建买家，等待活动开始。";
        phase_running: "{done} of {total} attempts are over.", "已完成 {done} / {total} 次尝试。";
        phase_auditing: "All attempts are over, the database is audited.", "全部尝试已结束，正在审计数据库。";
        phase_ended: "{answers} answers a second, {orders} orders in {seconds} s; at the client, from when a request was due: p50 {p50}, p99 {p99}.", "每秒 {answers} 次响应，{seconds} 秒内 {orders} 单；客户端计时（从请求应发出算起）p50 {p50}，p99 {p99}。";
        phase_stopped: "Stopped. The orders it made stay.", "已停止，已成交的订单保留。";
        phase_failed: "It failed: {reason}.", "失败：{reason}。";
    }
}

/// What is added. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn additions(admin_phone: Option<&'static str>) -> BoardAdditions {
    BoardAdditions {
        module: "board_play.js",
        texts: |language| json!(Play::of(language)),
        top: |language| watch_link(Play::of(language)),
        panel: |language| crowd(Play::of(language)),
        admin_phone,
    }
}

fn watch_link(texts: &Play) -> Markup {
    html! {
        p.note.stage { (texts.stage_before) " " a href="/watch" { (texts.stage_link) } }
    }
}

fn crowd(texts: &Play) -> Markup {
    html! {
        section #crowd-card.panel aria-labelledby="crowd-title" {
            h2 #crowd-title { (texts.crowd_title) }
            p { (texts.crowd_about) }
            form #crowd-form novalidate {
                (field("users", texts.users, html! {
                    input #users name="users" type="number" min="1" max=(MAX_USERS) step="1"
                        required value="1000" aria-describedby="users-error";
                }))
                (field("attempts", texts.attempts, html! {
                    input #attempts name="attempts" type="number" min="1" max=(MAX_ATTEMPTS)
                        step="1" required value="5" aria-describedby="attempts-error";
                }))
                button #send-crowd.primary type="submit" { (texts.crowd_button) }
                button.quiet #stop-crowd type="button" disabled { (texts.crowd_stop) }
            }
            progress #crowd-progress max="1" value="0" aria-label=(texts.crowd_progress) hidden {}
            p #crowd-sale.state {}
            p #crowd-state.state role="status" title=(texts.latency_note) {}
            div #crowd-verdict {}
        }
    }
}

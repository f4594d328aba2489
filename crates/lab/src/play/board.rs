//! What the board of a demonstration has more: a button that shows a whole sale, and crowds.

use maud::{Markup, html};
use seckill::pages::{BoardAdditions, field};
use seckill::texts;
use serde_json::json;

use super::crowd_sender::{MAX_ATTEMPTS, MAX_USERS};

texts! {
    /// The texts of what is added to the board.
    Play {
        demo_title: "See a flash sale happen", "看一场秒杀";
        demo_about: "One click logs in as the administrator of this demonstration, puts 2,000 vouchers on sale and sends 20,000 made-up buyers, each trying three times at once. This works only here, where the server has its own private PostgreSQL and Redis.", "点击一次：以演示管理员登录，上架 2000 张优惠券，并派出 2 万名模拟买家，每人同时尝试三次。仅当服务器使用自带的私有 PostgreSQL 和 Redis 时可用。";
        demo_button: "Start a demonstration sale", "开始演示";
        demo_sale: "Demonstration: 100 yuan for 80", "演示：100 元券仅售 80 元";
        demo_starting: "The sale begins in a few seconds.", "秒杀将在几秒后开始。";
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
        phase_preparing: "The buyers are being made; the sale is awaited.", "正在创建买家，等待活动开始。";
        phase_running: "{done} of {total} attempts are over.", "已完成 {done} / {total} 次尝试。";
        phase_auditing: "All attempts are over, the database is audited.", "全部尝试已结束，正在审计数据库。";
        phase_ended: "{answers} answers a second, {orders} orders in {seconds} s; p50 {p50}, p99 {p99}.", "每秒 {answers} 次响应，{seconds} 秒内 {orders} 单；p50 {p50}，p99 {p99}。";
        phase_stopped: "Stopped. The orders it made stay.", "已停止，已成交的订单保留。";
        phase_failed: "It failed: {reason}.", "失败：{reason}。";
    }
}

/// What is added. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn additions(admin_phone: Option<&'static str>) -> BoardAdditions {
    BoardAdditions {
        module: "board_play.js",
        texts: |language| json!(Play::of(language)),
        top: |language| demonstration(Play::of(language)),
        panel: |language| crowd(Play::of(language)),
        admin_phone,
    }
}

fn demonstration(texts: &Play) -> Markup {
    html! {
        section.panel.demonstration aria-labelledby="demonstration-title" {
            div {
                h2 #demonstration-title { (texts.demo_title) }
                p { (texts.demo_about) }
            }
            button #demo.primary type="button" { (texts.demo_button) }
            p #demo-state.state role="status" {}
        }
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
            p #crowd-state.state role="status" {}
            div #crowd-verdict {}
        }
    }
}

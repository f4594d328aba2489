//! `/`: the vouchers, and buying one.

use maud::{Markup, html};
use serde::Serialize;

use super::page::HtmlPage;
use crate::http::Language;
use crate::texts;

texts! {
    /// What the page says. `{…}` is filled in by its scripts.
    Storefront {
        title: "Flash sales", "限时秒杀";
        lead: "A limited stock, on sale at a fixed minute. One voucher a person.",
            "数量有限，准点开抢，每人限购一张。";
        vouchers: "Vouchers", "优惠券";
        my_orders: "My orders", "我的订单";
        nothing_yet: "There is no sale yet. New ones appear here by themselves.",
            "暂无活动，新活动会自动出现在这里。";
        nothing_on: "Nothing is on sale now. What is over stands below.", "当前没有进行中的活动，已结束的在下方。";
        over: "Over ({count})", "已结束（{count}）";
        new_sale: "1 new sale", "1 个新活动";
        new_sales: "{count} new sales", "{count} 个新活动";
        sale_back: "1 sale is on again", "1 个活动重新开抢";
        sales_back: "{count} sales are new or on again", "{count} 个活动新上架或重新开抢";
        more: "Older ones", "查看更多";

        connecting: "Connecting …", "正在连接……";
        live: "Live", "实时更新";
        polling: "Updated every 5 seconds", "每 5 秒更新";
        offline: "No connection. Trying again …", "连接中断，正在重试……";

        upcoming: "Coming soon", "即将开始";
        on_sale: "On sale", "抢购中";
        paused: "Paused", "已暂停";
        sold_out: "Sold out", "已售罄";
        ended: "Over", "已结束";
        yours: "Yours", "已抢到";
        free: "Free", "免费";
        time_to_pay: "{time} to pay once it is yours", "下单后需在 {time} 内支付";
        worth: "worth {value}", "价值 {value}";
        terms: "Terms", "使用规则";
        left: "{left} of {all} left", "剩余 {left} / {all}";
        begins_in: "Begins in", "距开始";
        begins_at: "Begins {at}", "{at} 开始";
        ends_in: "Ends in {time}", "距结束 {time}";
        ends_at: "Ends {at}", "{at} 结束";
        ended_at: "Ended {at}", "已于 {at} 结束";
        days: "{days} d {rest}", "{days} 天 {rest}";

        buy: "Buy now", "立即抢购";
        buying: "Buying …", "正在抢购……";
        bought: "Bought", "已购买";
        has_used: "Redeemed", "已使用";
        has_refunding: "Refund under way", "退款中";
        buy_paused: "Paused", "已暂停";
        buy_sold_out: "Sold out", "已售罄";
        buy_ended: "Over", "已结束";
        your_order: "It is yours. Order {order}", "抢购成功，订单号 {order}";
        your_unpaid: "Reserved for you. Order {order}", "下单成功，请尽快支付。订单号 {order}";
        your_used: "You have redeemed it. Order {order}", "已使用，订单号 {order}";
        your_refunding: "Your money is on its way back. Order {order}", "退款中，订单号 {order}";
        your_cancelled: "Your order is cancelled. Order {order}", "订单已取消，订单号 {order}";
        your_refunded: "Your money was given back. Order {order}", "已退款，订单号 {order}";

        pay_within: "Pay within {time}", "请在 {time} 内支付";
        time_is_over: "The time to pay is over.", "支付时间已过。";
        pay: "Pay", "立即支付";
        cancel_order: "Cancel order", "取消订单";
        cancel_title: "Cancel this order?", "确定取消订单？";
        cancel_about: "The voucher goes back on sale. You may buy again while there are any.",
            "取消后优惠券将重新开售；如有剩余，您可以再次抢购。";
        cancel_yes: "Yes, cancel it", "确定取消";
        cancel_no: "Keep the order", "再想想";
        pay_unknown: "The connection was lost before the payment page could be opened. Asking the server again …",
            "连接中断，未能打开支付页面，正在重新查询……";
        cancel_unknown: "The connection was lost. It is not known whether the order is cancelled. Asking the server again …",
            "连接中断，暂时不知道订单是否已取消，正在重新查询……";
        still_unpaid: "The order is still unpaid and not cancelled. You can try again.",
            "订单仍为待支付状态，可以重试。";
        order_is_now: "That is not possible any more. The order is now: {state}.",
            "操作无法完成，订单当前状态：{state}。";

        lost: "The connection was lost. Asking whether you have the voucher:",
            "连接中断，正在确认您是否已抢到：";
        next_try: "Next try in {seconds} s ({number} of {all}).",
            "{seconds} 秒后重试（第 {number} 次，共 {all} 次）。";
        try_again: "Try again in a moment.", "请稍后再试。";
        unknown: "The server cannot be reached. Whether you have it is not known yet; this page asks as soon as it can.",
            "连不上服务器，暂时不知道是否已经抢到；恢复后本页会自动查询。";
        not_bought: "You do not have it. You can try again.", "没有抢到，可以再试一次。";
        no_connection: "The server cannot be reached.", "无法连接服务器。";
        again_in: "In {seconds} s you may try again.", "{seconds} 秒后可重试。";

        log_in: "Log in", "登录";
        log_out: "Log out", "退出登录";
        logged_out: "You are logged out, on all devices.", "已在所有设备上退出登录。";
        logged_out_here: "Logged out here. The server could not be told: log in and out again.",
            "已在此退出，但未能通知服务器；请稍后重新登录并退出一次。";
        logged_in_as: "Logged in as", "当前用户";
        phone: "Phone number", "手机号";
        phone_hint: "11 digits, or with + and the country code. The first login makes an account.",
            "11 位手机号，或以 + 和国家代码开头；首次登录自动注册。";
        send_code: "Send me a code", "获取验证码";
        code: "Code", "验证码";
        code_sent: "Six digits are on their way to {phone}.", "六位验证码已发送至 {phone}。";
        demonstration: "Demonstration: no text message is sent here. Your code:",
            "演示模式：不会发送短信。您的验证码：";
        other_phone: "Another number", "更换手机号";
        cancel: "Cancel", "取消";
        wrong_phone: "This is no phone number.", "手机号格式不正确。";
        wrong_code: "The code is wrong, used or too old.", "验证码错误或已失效。";

        log_in_for_orders: "Log in to see your orders.", "登录后查看订单。";
        no_orders: "No order yet.", "暂无订单。";
        order_unpaid: "To be paid", "待支付";
        order_paid: "Paid", "已支付";
        order_used: "Redeemed", "已使用";
        order_cancelled: "Cancelled", "已取消";
        order_refunding: "Refund under way", "退款中";
        order_refunded: "Refunded", "已退款";
        order_charged_back: "Redeemed, charged back", "已使用，已退款";
    }
}

/// The page.
pub fn page(language: Language) -> HtmlPage<'static, impl Serialize> {
    let texts = Storefront::of(language);
    HtmlPage {
        language,
        title: texts.title,
        path: "/",
        styles: &[],
        libraries: &[],
        modules: &["storefront.js"],
        needs_scripts: true,
        texts,
        main: content(texts),
    }
}

fn content(texts: &Storefront) -> Markup {
    html! {
        div.hero {
            h1 { (texts.title) }
            div.account {
                button.quiet #log-in type="button" { (texts.log_in) }
                p #user hidden {
                    span.unseen { (texts.logged_in_as) " " }
                    span #user-phone {}
                    button.link #log-out type="button" { (texts.log_out) }
                }
            }
            div.lead {
                p { (texts.lead) }
                p #account-notice role="status" {}
            }
        }
        div.bar {
            nav.tabs aria-label=(texts.title) {
                a href="#all" aria-current="page" { (texts.vouchers) }
                a href="#orders" { (texts.my_orders) }
            }
        }
        div.line {
            p.connection #connection role="status" data-state="connecting" { (texts.connecting) }
            // It has its place before there is anything to say: what stands below does not move.
            div role="status" {
                button.quiet #new-sales type="button" { (texts.new_sale) }
            }
        }
        section #vouchers-view aria-label=(texts.vouchers) {
            ul.cards #vouchers {}
            p.empty #nothing-yet hidden { (texts.nothing_yet) }
            // All that may come when it is pressed comes below it: it does not move under a finger.
            p.more { button.quiet #more-vouchers type="button" hidden { (texts.more) } }
            ul.cards #older-vouchers {}
            p.empty #nothing-on hidden { (texts.nothing_on) }
            details #over hidden {
                summary #over-count {}
                ul.cards #over-vouchers {}
            }
        }
        section #orders-view aria-label=(texts.my_orders) hidden {
            div #orders-login {
                p.empty { (texts.log_in_for_orders) }
                p.more { button.quiet #orders-log-in type="button" { (texts.log_in) } }
            }
            p.empty #no-orders hidden { (texts.no_orders) }
            p.message #orders-notice role="status" data-kind="bad" {}
            ul.orders #order-list {}
            p.more { button.quiet #more-orders type="button" hidden { (texts.more) } }
        }
        (login(texts))
        dialog #cancel-order aria-labelledby="cancel-title" aria-describedby="cancel-about" {
            h2 #cancel-title { (texts.cancel_title) }
            p #cancel-about { (texts.cancel_about) }
            // A dialog's form sends nothing: it closes the dialog with the value of the button.
            form method="dialog" {
                button.primary value="no" { (texts.cancel_no) }
                button.quiet value="yes" { (texts.cancel_yes) }
            }
        }
    }
}

fn login(texts: &Storefront) -> Markup {
    html! {
        dialog #login aria-labelledby="login-title" {
            h2 #login-title { (texts.log_in) }
            form #phone-form {
                label for="phone" { (texts.phone) }
                input #phone type="tel" name="phone" autocomplete="tel" inputmode="tel"
                    maxlength="24" required aria-describedby="phone-hint";
                p.hint #phone-hint { (texts.phone_hint) }
                button.primary type="submit" { (texts.send_code) }
            }
            form #code-form hidden {
                p #sent-to {}
                p.notice #demonstration hidden { (texts.demonstration) " " strong #shown-code {} }
                label for="code" { (texts.code) }
                input #code name="code" autocomplete="one-time-code" inputmode="numeric"
                    maxlength="6" pattern="[0-9]{6}" required;
                button.primary type="submit" { (texts.log_in) }
                button.link #other-phone type="button" { (texts.other_phone) }
            }
            p.message #login-notice role="alert" data-kind="bad" {}
            button.link #cancel-login type="button" { (texts.cancel) }
        }
    }
}

//! The scenarios and the promises in Chinese. In English their names come with their sentences.

use ladder::{Invariant, Scenario};
use seckill::http::Language;

/// What happens in a scenario, in a sentence.
pub fn story(scenario: Scenario, language: Language) -> &'static str {
    match language {
        Language::English => scenario.story(),
        Language::Chinese => story_zh(scenario),
    }
}

/// What is promised, in a sentence.
pub fn promise(invariant: Invariant, language: Language) -> &'static str {
    match language {
        Language::English => invariant.sentence(),
        Language::Chinese => promise_zh(invariant),
    }
}

const fn promise_zh(invariant: Invariant) -> &'static str {
    match invariant {
        Invariant::NoOversell => {
            "不超卖：一种券的有效订单数（已取消、已退款的不算）永远不超过初始库存。"
        }
        Invariant::OnePerUser => "一人一单：一个用户对一种券最多有一张有效订单。",
        Invariant::NoUndersell => {
            "不少卖：还有库存时，不会告诉第一次来的买家“售罄”；有效订单数 + 剩余库存 = 初始库存。"
        }
        Invariant::NoLostOrder => "不丢单：确认过的订单一定在数据库里。",
        Invariant::NoLockout => "不锁死：持有者死了，最多把用户锁在门外一个租期。",
        Invariant::NoOutage => {
            "不停售：锁的服务器（或者代替锁来裁决的那台 Redis）停了一台，第一次来的买家也照样买得到。"
        }
        Invariant::NoSelfDeadlock => "不自锁：持有锁的代码可以调用再次获取同一把锁的代码。",
        Invariant::NoBrokenPromise => {
            "不食言：被告知“成功”的买家有订单；被告知“已受理”的买家，在一切恢复之后的有限时间内得到最终结果。"
        }
        Invariant::SameAnswer => "同一个结果：重发的请求得到第一次请求的结果。",
        Invariant::NoStuckStock => "不卡库存：没有按时支付的券会重新开售，进程崩溃过也一样。",
        Invariant::NoLostPayment => {
            "不丢钱：确认过的支付，要么属于一张已支付的订单，要么正在退款。"
        }
    }
}

const fn story_zh(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::LastOne => "两个买家都看到最后一张券",
        Scenario::Herd => "许多买家读到同一个库存，谁都还没写",
        Scenario::OtherSegment => "买家自己那一段库存空了，别的段还有",
        Scenario::DoubleClick => "一个用户，两个请求同时到，同一个进程",
        Scenario::TwoNodes => "一个用户，两个进程各一个请求",
        Scenario::EarlyRelease => "第二个请求在释放与提交之间进来",
        Scenario::HolderDies => "持有者拿着锁被杀",
        Scenario::DiesBetween => "持有者在加锁的两条命令之间被杀",
        Scenario::SlowHolder => "工作比租期长：迟到的释放会放第三个人进来吗？",
        Scenario::OutlivedLease => "工作比租期长：第二个人进得来吗？",
        Scenario::StalledRelease => "持有者在释放时暂停：已经比较，还没删除",
        Scenario::Nested => "持有者调用的代码要获取同一把锁",
        Scenario::LostWakeup => "释放正好落在等待者“没拿到锁”与“订阅”之间",
        Scenario::ResentRelease => "释放的响应丢了，又发了一次，而锁被持有了两次",
        Scenario::NodeDown => "锁的一台服务器停了：还有人买得到吗？",
        Scenario::Failover => "Redis 主节点死时，副本还没有这把锁",
        Scenario::Amnesia => "一个锁节点重启，数据为空",
        Scenario::ClockJump => "一个锁节点的时钟跳过了租期",
        Scenario::PausedHolder => "持有者在最后一次检查之后、写入之前停过了租期",
        Scenario::UpdateIgnored => "Redis 从旧快照恢复，最后一张又卖给了别人",
        Scenario::RedisRestored => "Redis 从旧快照恢复，一个买家又来了",
        Scenario::DiesBeforeAck => "消费者死在提交与确认之间",
        Scenario::ConnectionLost => "消费者提交的响应丢了",
        Scenario::OneConsumerName => "一个消费者读到另一个进程手里的消息",
        Scenario::QueueFull => "买的人比队列的空位多",
        Scenario::FullQueueDies => "进程还没写完卖出的订单就死了",
        Scenario::DiesBeforeWrite => "消费者手里拿着消息，还没写就死了",
        Scenario::DiesWithLast => "消费者拿着最后一张券死了，另一个买家来了",
        Scenario::GivenUp => "两个消费者都拿着最后一张券死了，这条消息被放弃",
        Scenario::PoisonEntry => "排在最前的是一条永远写不进去的消息",
        Scenario::GroupFromNow => "买家在消费者组创建之前就来了",
        Scenario::StreamTrimmed => "买的人比 Stream 保留的消息多",
        Scenario::RedisDies => "断电：Redis 在最后一次 fsync 之后确认的东西没有了",
        Scenario::ReplicaLags => "Redis 主节点死时，副本还没有这条消息",
        Scenario::PublishedTwice => "中继死在发布与标记之间",
        Scenario::SoldAgain => "支付与到期撞在一起，退回的券又被另一个买家买走",
        Scenario::HalfExpired => "取消订单的两步之间被杀：只做了一步",
        Scenario::ForgottenTimer => "卖出订单的进程在支付期限之前被杀",
        Scenario::PayAndExpire => "支付正好在期限到的那一刻到来",
        Scenario::LatePayment => "支付到来时订单已经取消",
        Scenario::StockReloaded => "还有订单没写库，就把库存重新加载进 Redis",
        Scenario::SoldAfterReload => "还有订单没写库，就把库存重新加载进 Redis：会不会超卖？",
        Scenario::StaleRefill => "管理员删缓存与写库之间，有人回填了缓存",
        Scenario::LateRefill => "管理员加库存之前读到的库存，在加完之后才回填进缓存",
        Scenario::LostDelete => "加库存的进程死了，还没再删一次缓存",
        Scenario::AnswerLost => "购买的响应丢了，客户端又发了一次",
    }
}

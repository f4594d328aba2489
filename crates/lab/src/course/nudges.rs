//! A nudge for whoever plays a rung and does not find the schedule that breaks it: where to look, and not
//! how.

use super::in_language;
use ladder::Scenario;
use seckill::http::Language;

/// The nudge towards a scenario; `None` where the player has no schedule for it.
pub fn nudge(scenario: Scenario, language: Language) -> Option<&'static str> {
    let (english, chinese) = nudges(scenario)?;
    Some(in_language(language, english, chinese))
}

const fn nudges(scenario: Scenario) -> Option<(&'static str, &'static str)> {
    Some(match scenario {
        Scenario::LastOne => {
            ("What does B read while A has not written yet?", "A 还没写的时候，B 读到的是什么？")
        }
        Scenario::Herd => (
            "Let both read before either writes. What is the slower one told?",
            "让两个人都先读再写。慢的那个会得到什么响应？",
        ),
        Scenario::OtherSegment => (
            "Whose segment is empty, and what lies in the other one?",
            "谁的那一段空了？另一段里还有什么？",
        ),
        Scenario::DoubleClick => (
            "When does the rung ask for an earlier order, and what does it see if the other request has not \
             committed?",
            "它什么时候查已有的订单？另一个请求还没提交时，它看得到吗？",
        ),
        Scenario::TwoNodes => {
            ("Where is the lock? Does the other process see it?", "锁在哪里？另一个进程看得见吗？")
        }
        Scenario::EarlyRelease => (
            "Look at the order of the release and the commit. Who gets in between?",
            "看看释放锁与提交的先后。谁能从中间进来？",
        ),
        Scenario::HolderDies => {
            ("Who gives back the lock if its holder dies?", "持有者死了，谁来释放锁？")
        }
        Scenario::DiesBetween => (
            "The key and its lease are two commands. What is left if the holder dies between them?",
            "键和租期是两条命令。持有者死在两条之间，会留下什么？",
        ),
        Scenario::OutlivedLease => (
            "The lease may end while its holder works. When would that hurt most?",
            "持有者还在干活，租期就可能到期。什么时候到期最要命？",
        ),
        Scenario::PausedHolder | Scenario::ClockJump => (
            "The holder looks a last time, and writes later. What may happen in between?",
            "持有者最后确认一次，之后才写。这中间可能发生什么？",
        ),
        Scenario::FullQueueDies => (
            "A buyer was told yes. Where is the order before it is written, and what ends with the process?",
            "买家已经得到“成功”。订单写库之前在哪里？进程死了，什么跟着没了？",
        ),
        Scenario::DiesBeforeWrite => (
            "Let the consumer take an entry. Who has it when its process dies?",
            "让消费者取走一条消息。它的进程死了，这条消息在谁手里？",
        ),
        Scenario::DiesWithLast => (
            "Redis says sold out, the database does not know yet. What if it never hears of it?",
            "Redis 说售罄，数据库还不知道。要是它永远不知道呢？",
        ),
        _ => return None,
    })
}

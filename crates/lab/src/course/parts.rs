//! The parts of the ladder, under which the index of the course shows its rungs.

use super::in_language;
use ladder::Rung;
use seckill::http::Language;

/// Rungs that belong together, as the index of the course shows them.
#[derive(Debug, PartialEq, Eq)]
pub struct LadderPart {
    /// The rung that it begins with, or the beginning of its name.
    begins: &'static str,
    title: &'static str,
    title_zh: &'static str,
}

/// The parts, in the ladder's order.
pub const PARTS: &[LadderPart] = &[
    LadderPart { begins: "r01", title: "One voucher too many", title_zh: "多卖一张" },
    LadderPart { begins: "r05", title: "One user, twice", title_zh: "一个人买两次" },
    LadderPart {
        begins: "r08",
        title: "A lock that all processes see",
        title_zh: "所有进程都看得见的锁",
    },
    LadderPart { begins: "r14", title: "Several servers", title_zh: "好几台服务器" },
    LadderPart { begins: "r16", title: "The last word", title_zh: "谁说了算" },
    LadderPart {
        begins: "r20", title: "Answer first, write later", title_zh: "先响应，后写库"
    },
    LadderPart {
        begins: "r24", title: "The order is not paid yet", title_zh: "订单还没有支付"
    },
    LadderPart { begins: "r26", title: "The cache and the retry", title_zh: "缓存与重试" },
];

impl LadderPart {
    /// The part that a rung belongs to: the last one that does not begin after it.
    pub fn of(rung: &Rung) -> &'static Self {
        PARTS.iter().rfind(|part| part.begins <= rung.id).unwrap_or(&PARTS[0])
    }

    /// Its heading.
    pub const fn title(&self, language: Language) -> &'static str {
        in_language(language, self.title, self.title_zh)
    }
}

#[cfg(test)]
mod tests {
    use ladder::RUNGS;

    use super::*;

    #[test]
    fn the_parts_follow_each_other_as_the_rungs_do() {
        let parts: Vec<&str> = RUNGS.iter().map(|rung| LadderPart::of(rung).begins).collect();
        assert!(parts.is_sorted() && parts[0] == PARTS[0].begins, "{parts:?}");
    }
}

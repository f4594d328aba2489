//! What happened in a replay, in Chinese: each English sentence is looked up among the phrases, and so is what
//! stands in its holes.

use std::borrow::Cow;

use super::chinese_phrases::PHRASES;
use seckill::http::Language;

/// A sentence of a timeline or a witness. One that has no translation stays English.
pub fn event(text: &str, language: Language) -> Cow<'_, str> {
    match language {
        Language::English => Cow::Borrowed(text),
        Language::Chinese => translated(text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

fn translated(text: &str) -> Option<String> {
    PHRASES.iter().find_map(|(english, chinese)| Some(filled(chinese, &holes(english, text)?)))
}

/// What stands in the holes of a phrase, translated; `None` where the phrase does not fit.
fn holes(phrase: &str, text: &str) -> Option<Vec<String>> {
    let Some(at) = phrase.find('{') else { return (phrase == text).then(Vec::new) };
    let (before, rest) = phrase.split_at(at);
    let text = text.strip_prefix(before)?;
    if rest == "{*}" {
        return Some(vec![text.to_owned()]);
    }
    let rest = rest.strip_prefix("{}")?;
    let literal = &rest[..rest.find('{').unwrap_or(rest.len())];
    let ends: Vec<usize> = match literal {
        "" => vec![text.len()],
        _ => text.match_indices(literal).map(|(at, _)| at).collect(),
    };
    ends.into_iter().find_map(|end| {
        let first = hole(&text[..end])?;
        let others = holes(rest, &text[end..])?;
        Some([vec![first], others].concat())
    })
}

/// A name or a number stays as it is.
fn hole(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && !text.contains(' ');
    translated(text).or_else(|| is_name.then(|| text.to_owned()))
}

/// A Chinese phrase with what stands in its holes, which are in the same order or have numbers.
fn filled(phrase: &str, holes: &[String]) -> String {
    let mut text = phrase.to_owned();
    for (number, hole) in (1..).zip(holes) {
        let numbered = format!("{{{number}}}");
        let mark = [numbered.as_str(), "{}", "{*}"].into_iter().find(|mark| text.contains(*mark));
        text = text.replacen(mark.unwrap_or("{}"), hole, 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_hole_is_translated_too() {
        for (english, chinese) in [
            ("goes on", "继续往下走"),
            ("is told: sold_out", "得到响应：售罄（sold_out）"),
            ("so: user 1 is locked out for ever", "于是：用户 1 永远被锁在门外"),
            ("is about to commit: order 12", "即将提交：订单 12"),
            ("holds the lock: SET NX PX 0.3 s", "拿到锁：SET NX PX 0.3 秒"),
            ("holds the lock: hold 2, for 2000 ms", "拿到锁：第 2 次持有，租期 2000 毫秒"),
            (
                "voucher 1: 2 orders for a stock of 1; the column says 0",
                "券 1：库存 1，却有 2 张订单；库存列写的是 0",
            ),
            (
                "voucher 1: B, C, D told sold out, and 4 in stock",
                "券 1：B、C、D 得到“售罄”的响应，库存却还有 4",
            ),
            ("voucher 2: user 1 holds 2 orders: 8 and 9", "券 2：用户 1 持有 2 张订单：8 和 9"),
            (
                "A was told yes, and has no order; voucher 1: 1 of 2 not on sale again",
                "A 得到“成功”的响应，却没有订单；券 1：2 张里有 1 张没有重新开售",
            ),
            (
                "A paid too late, and nobody gives the money back; \
                 B was told that the order is paid, and it is cancelled; nobody gives the money back",
                "A 付得太晚，没有人退款；B 得到“已支付”的响应，订单却取消了，没有人退款",
            ),
            (
                "comes to no answer: the database: Broken pipe (os error 32)",
                "没有得到响应：数据库出错：Broken pipe (os error 32)",
            ),
        ] {
            assert_eq!(event(english, Language::Chinese), chinese);
            assert_eq!(event(english, Language::English), english);
        }
    }

    #[test]
    fn what_has_no_translation_stays_as_it_is() {
        for text in ["", "no such sentence", "is told: no such answer", "voucher x y is on sale"] {
            assert_eq!(event(text, Language::Chinese), text);
        }
    }

    #[test]
    fn no_phrase_hides_behind_another_and_every_hole_is_filled() {
        for (english, chinese) in PHRASES {
            let text = english.replace("{}", "A").replace("{*}", "A");
            let found = translated(&text).unwrap_or_default();
            assert!(!found.is_empty() && !found.contains('{'), "{text}: {found}");
            for part in chinese.split('{').map(|part| part.split_once('}').map_or(part, |it| it.1))
            {
                assert!(found.contains(part), "{text} is {found}, and not {chinese}");
            }
        }
    }
}

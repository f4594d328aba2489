//! A check's report on a terminal. What the target said is escaped: it must not move the cursor.

use report::escape;

use super::report::CheckReport;
use super::tables::{answers, figures, vouchers};

/// Vouchers that are listed one by one.
const SHOWN: usize = 6;

/// The report as text.
#[must_use]
pub fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    let width = |name: &str| format!("{name:<24}");
    for promise in &report.promises {
        let (name, meaning) = (promise.promise.name(), promise.promise.meaning());
        text += &format!("{:<8} {}{meaning}\n", promise.verdict.word(), width(name));
        for found in &promise.findings {
            text += &format!("         {}\n", escape(&found.sentence));
            for witness in &found.witnesses {
                text += &format!("           {}\n", escape(&witness.text));
            }
        }
    }
    let (first, last) = report.vouchers.split_at(report.vouchers.len().min(SHOWN / 2));
    let last = &last[last.len().saturating_sub(SHOWN / 2)..];
    text += &format!("\n{}\n", vouchers(first.iter().chain(last)).text());
    if report.vouchers.len() > SHOWN {
        text += &format!("and {} more\n", report.vouchers.len() - SHOWN);
    }
    text += &format!("\n{}\n\n{}\n", answers(report).text(), figures(report).text());
    for example in &report.examples {
        let status = example.status.map_or_else(String::new, |status| format!(" ({status})"));
        let (outcome, said) = (escape(&example.outcome), escape(&example.said));
        text += &format!("example of {outcome}{status}, {}: {said}\n", example.crowd);
    }
    for not_tried in &report.not_tried {
        text += &format!("not tried: {}\n", not_tried.en);
    }
    for note in &report.notes {
        text += &format!("{}\n", escape(note));
    }
    text
}

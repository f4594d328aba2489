//! What a demo runs on and the verdict on it, for people.

use std::collections::BTreeSet;
use std::time::Duration;

use load::latency::LatencyMs;
use load::told::Outcomes;
use load::verdict::{Counts, Figures};
use redis_link::Redis;
use report::{Table, machine};
use seckill::cli::stores::Stores;
use seckill::store::statements::Work;
use seckill::store::{Database, DatabaseSession};

use super::demo_against::Against;
use super::demo_draw::{DrawFigures, Served};
use super::verdict::{DemoVerdict, PaymentFigures, WaveFigures};

/// How wide the bar is of those who got every voucher.
const BAR: f64 = 40.0;
/// How long the database may take to say what it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Vouchers that the table shows though nothing is wrong with them.
const SHOWN: usize = 8;

/// The versions of the servers.
///
/// # Errors
/// When the database does not answer.
pub async fn versions(database: &Database, stores: &Stores) -> anyhow::Result<String> {
    let unknown = || "of unknown version".to_owned();
    // By a session that leaves no statement behind at a pooler.
    let read = async |session: &mut DatabaseSession| {
        let version = machine::postgresql(&mut *session, "server_version").await;
        Ok((version, machine::postgresql(session, "fsync").await))
    };
    let (postgres, durable) = Work::snapshot(ANSWER_WITHIN, database.pool()).run(read).await?;
    let postgres = postgres.unwrap_or_else(unknown);
    let durable = durable.unwrap_or_else(|| "?".to_owned());
    // A user may well not be allowed to ask; a Redis that is away the nodes tell of.
    let redis = machine::redis(&Redis::new(&stores.redis_url)?).await.unwrap_or_else(unknown);
    let private = stores
        .private()
        .map_or_else(String::new, |private| format!("; private and for this run alone: {private}"));
    let postgres = postgres.split(" (").next().unwrap_or_default();
    Ok(format!("PostgreSQL {postgres} (fsync {durable}), Redis {redis}{private}."))
}

/// Prints the figures to standard error, and those of the other design beside them.
pub fn print(verdict: &DemoVerdict) {
    let against = verdict.against.as_ref().and_then(Against::verdict);
    let (crowd, other) = (&verdict.crowd, against.map(|against| &against.crowd));
    let mut table = Table::new(&["", "", ""], &[]);
    let mut row = |name: &str, value: String, others: Option<String>| {
        table.add([name, &value, &others.unwrap_or_default()]);
    };
    if let Some(against) = against {
        row("", verdict.terms.strategy.to_owned(), Some(against.rung.clone()));
    }
    let codes = other.map(|other| other.outcomes.keys()).into_iter().flatten();
    for code in crowd.outcomes.keys().chain(codes).collect::<BTreeSet<_>>() {
        let count = |outcomes: &Outcomes| outcomes.get(code).copied().unwrap_or(0).to_string();
        row(code, count(&crowd.outcomes), other.map(|other| count(&other.outcomes)));
    }
    row("", String::new(), None);
    let mut figure = |name: &str, of: fn(&Figures) -> i64| {
        let theirs = other.map(|other| of(&other.figures).to_string());
        row(name, of(&crowd.figures).to_string(), theirs);
    };
    figure("orders in the database", |it| it.orders);
    figure("stock left", |it| it.remaining);
    figure("oversold", |it| it.found.oversold);
    figure("duplicates", |it| it.found.duplicates);
    figure("undersold", |it| it.found.undersold);
    figure("lost", |it| it.found.lost);
    if let Some(payments) = verdict.payments {
        let PaymentFigures { paid, expired, cancelled, payments, refunds, lost_payments } =
            payments;
        row("", String::new(), None);
        row("paid orders", paid.to_string(), None);
        row("expired", expired.to_string(), None);
        row("cancelled, expired ones included", cancelled.to_string(), None);
        row("payments", payments.to_string(), None);
        row("refunds", refunds.to_string(), None);
        row("lost payments", lost_payments.to_string(), None);
    }
    row("", String::new(), None);
    if verdict.draw.is_some() {
        row("of first come:", String::new(), None);
    }
    if let Some(WaveFigures { waves, all_waves_ms }) = verdict.waves {
        row("waves", waves.to_string(), None);
        row("all waves", format!("{:.1} s", all_waves_ms / 1e3), None);
        row("of the first wave:", String::new(), None);
    }
    let ms = |ms: f64| format!("{ms:.0} ms");
    row("elapsed", ms(crowd.elapsed_ms), other.map(|other| ms(other.elapsed_ms)));
    let per_s = |rate: f64| format!("{rate:.0}");
    let theirs = other.map(|other| per_s(other.answers_per_s));
    row("answers per second", per_s(crowd.answers_per_s), theirs);
    let latency = |latency: LatencyMs| {
        format!("{:.0} / {:.0} / {:.0} ms", latency.p50, latency.p95, latency.p99)
    };
    if let Some(ours) = crowd.latency_ms {
        let theirs = other.and_then(|other| other.latency_ms).map(latency);
        row("latency p50 / p95 / p99", latency(ours), theirs);
    }
    eprintln!("\n{}\n", table.text());
    if verdict.vouchers.len() > 1 {
        print_vouchers(verdict);
    }
    if let Some(draw) = &verdict.draw {
        print_draw(draw);
    }
}

/// How many of each group got a voucher, as bars.
fn print_draw(draw: &DrawFigures) {
    let mut table = Table::new(&["", "of buyers", "equal chances", "vouchers", ""], &[4]);
    let groups = [("the fast tenth", draw.fast), ("the others", draw.slow)];
    let mut rows = |sale: &str, of: fn(&Served) -> usize| {
        let all: usize = groups.iter().map(|(_, group)| of(group)).sum();
        for (name, group) in &groups {
            let bar = (BAR * of(group) as f64 / all.max(1) as f64).round() as usize;
            let expected = format!("{:.1}", group.expected);
            let figures =
                [group.buyers.to_string(), expected, of(group).to_string(), "█".repeat(bar)];
            table.add([&[format!("{sale}, {name}")][..], &figures].concat());
        }
    };
    rows("first come", |group| group.first_come);
    rows("draw", |group| group.drawn);
    eprintln!("{}\n", table.text());
}

/// How many of each group got a voucher, in words.
pub fn sentence_of_draw(draw: &DrawFigures) -> String {
    let DrawFigures { fast, slow, entries, late, chi_square, bound, .. } = draw;
    let late = match late {
        0 => String::new(),
        late => format!(" ({late} buyers came after the close)"),
    };
    let after =
        draw.drawn_after_ms.map_or_else(String::new, |ms| format!(" {ms} ms after the close"));
    format!(
        "Draw: the fast tenth got {} of {} vouchers by coming first, and {} of {} by the draw, where equal chances give \
         {:.1}; {entries} entries drawn{after}{late}, in the order that the published seed says. Chi-square {chi_square:.2}, one \
         degree of freedom: chance alone is above {bound} once in 1,000 draws.",
        fast.first_come,
        fast.first_come + slow.first_come,
        fast.drawn,
        fast.drawn + slow.drawn,
        fast.expected,
    )
}

/// The first vouchers, and all with which something is wrong.
fn print_vouchers(verdict: &DemoVerdict) {
    let heads = ["voucher", "orders", "left", "oversold", "duplicates", "undersold", "lost", ""];
    let mut table = Table::new(&heads, &[7]);
    let mut hidden = 0;
    for (position, voucher) in verdict.vouchers.iter().enumerate() {
        if voucher.holds && position >= SHOWN {
            hidden += 1;
            continue;
        }
        let Figures { orders, remaining, found, .. } = voucher.figures;
        let Counts { oversold, duplicates, undersold, lost, .. } = found;
        let figures = [orders, remaining, oversold, duplicates, undersold, lost];
        let word = if voucher.holds { "holds" } else { "BROKEN" };
        let id = voucher.voucher_id.to_string();
        let figures = figures.map(|figure| figure.to_string());
        table.add([&[id][..], &figures, &[word.to_owned()]].concat());
    }
    eprintln!("{}", table.text());
    if hidden > 0 {
        eprintln!("and {hidden} more, each of which holds");
    }
    eprintln!();
}

/// The verdict in one sentence. Of several broken sales it has the sentences of the first.
pub fn sentence(verdict: &DemoVerdict) -> String {
    let (figures, vouchers) = (verdict.crowd.figures, &verdict.vouchers);
    let count = vouchers.len();
    let broken: Vec<_> = vouchers.iter().filter(|voucher| !voucher.holds).collect();
    let Some(first) = broken.first() else {
        let sold = if count == 1 {
            format!("{} vouchers", figures.stock)
        } else {
            format!("{count} vouchers with a stock of {} in all", figures.stock)
        };
        let orders = figures.orders;
        if let (Some(payments), Some(waves)) = (verdict.payments, verdict.waves) {
            return format!(
                "HOLDS: {sold}, {orders} orders, all of them paid for, nobody twice, {} expired and \
                 were sold again (waves: {}), every acknowledged order and payment is in the database.",
                payments.expired, waves.waves
            );
        }
        return format!(
            "HOLDS: {sold}, {orders} orders, nobody twice, nothing left that a buyer wanted, every \
             acknowledged order is in the database."
        );
    };
    let failures = first.verdict.sentences().join("; ");
    match count {
        1 => format!("BROKEN: {failures}."),
        _ => format!(
            "BROKEN for {} of {count} vouchers: voucher {}: {failures}.",
            broken.len(),
            first.voucher_id
        ),
    }
}

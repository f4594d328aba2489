//! A demo in which some buyers do not pay: what they leave is sold again, wave by wave, until every voucher
//! is paid for.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::http::Method;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::demo_payments::{self, OrderToPay};
use super::demo_sales::DemoSale;
use super::demo_share::Buyers;
use super::verdict::{PaymentBooks, VoucherVerdict};
use load::calls::{self, Call};
use load::crowd::{Buyer, CrowdReport};
use load::outcome::SOLD_OUT;
use load::told::{Outcomes, Told};
use load::verdict::Books;
use program::progress;
use seckill::model::voucher_terms::VoucherChange;
use seckill::purchase::audit::VoucherAudit;
use seckill::store::Database;
use seckill::store::payments::PaymentId;
use seckill::store::vouchers;

/// How often the books are looked at while something is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Unpaid orders are gone, and on sale again at every node, so long after the time to pay at the latest.
const EXPIRED_WITHIN: Duration = Duration::from_secs(30);
/// The longest time to pay, on however slow a machine.
const LONGEST_TO_PAY: Duration = Duration::from_secs(300);
/// No wave begins later than this.
const ENDS_WITHIN: Duration = Duration::from_secs(1_200);

/// One voucher, and what its buyers were told in all waves so far.
pub struct SaleInWaves<'a> {
    /// The voucher and its buyers.
    pub sale: &'a DemoSale<'a>,
    /// What the buyers were told of their purchases. Those who were refused are those of the last wave: who
    /// was refused before came again.
    pub told: Told,
    /// The user and the payment of every buyer who was told that it is paid.
    pub paid: Vec<(i64, PaymentId)>,
    /// Payments without a proper answer.
    pub failures: Outcomes,
    /// Orders beyond the stock, at the worst time that was seen.
    pub most_oversold: i64,
    /// Vouchers that were left when a wave was over whose buyers were told that none is.
    pub withheld: i64,
    /// What never came to an end.
    pub stuck: Option<String>,
    /// The buyers who pay.
    payers: HashSet<Arc<str>>,
    /// The buyers without an order.
    waiting: BTreeMap<Arc<str>, Buyer>,
    /// The books as they were last seen.
    books: VoucherAudit,
}

/// All vouchers.
pub struct Waves<'a> {
    /// Each voucher.
    pub sales: Vec<SaleInWaves<'a>>,
    /// Waves so far.
    pub count: usize,
    database: &'a Database,
    nodes: Vec<SocketAddr>,
    pay_within: Duration,
}

impl<'a> Waves<'a> {
    /// Of `sales`, in which the `share` of the buyers pays, each `pay_within` that time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn new(
        database: &'a Database,
        nodes: Vec<SocketAddr>,
        sales: &'a [DemoSale<'a>],
        (share, pay_within): (f64, Duration),
    ) -> anyhow::Result<Self> {
        let mut in_waves = Vec::with_capacity(sales.len());
        for sale in sales {
            let buyers: Vec<Buyer> = sale.crowd().collect();
            let payers = Buyers { users: buyers.len(), share }.choose(&buyers);
            let name = |buyer: Buyer| (Arc::clone(&buyer.user_id), buyer);
            in_waves.push(SaleInWaves {
                sale,
                told: Told::default(),
                paid: Vec::new(),
                failures: Outcomes::new(),
                most_oversold: 0,
                withheld: 0,
                stuck: None,
                payers,
                waiting: buyers.into_iter().map(name).collect(),
                books: sale.audit(database).await?,
            });
        }
        Ok(Self { sales: in_waves, count: 0, database, nodes, pay_within })
    }

    /// Sends one wave after another with `send`, until all is paid for, or nothing more can come of it.
    /// Returns the report of the first.
    ///
    /// # Errors
    /// When a wave cannot be sent, or the database does not answer.
    pub async fn run(
        &mut self,
        send: impl AsyncFn(String, Vec<Buyer>) -> anyhow::Result<CrowdReport>,
    ) -> anyhow::Result<CrowdReport> {
        let ends_at = Instant::now() + ENDS_WITHIN;
        let (mut first, mut late_waves) = (None, 0);
        loop {
            self.count += 1;
            // Everybody comes to the first wave, also for a stock of 0.
            let is_first = first.is_none();
            let coming = self.sales.iter().filter(|sale| is_first || sale.can_sell());
            let buyers: Vec<Buyer> =
                coming.flat_map(|sale| sale.waiting.values().cloned()).collect();
            let what =
                if is_first { "The rush".to_owned() } else { format!("Wave {}", self.count) };
            let report = send(what, buyers).await?;
            let ordered = self.take(&report).await?;
            let late = self.pay(&ordered).await;
            if late > 0 {
                late_waves += 1;
                self.give_more_time().await?;
            }
            first.get_or_insert(report);
            let goes_on = !ordered.is_empty() && self.settle().await?;
            if !goes_on || Instant::now() >= ends_at {
                return first.context("there was a wave");
            }
            // Whoever was too late buys again after a pause, which doubles each time.
            if late > 0 {
                sleep(Duration::from_secs(1 << (late_waves - 1).min(12))).await;
            }
        }
    }

    /// Writes down what a wave was told. Returns its orders, each with the index of its sale.
    async fn take(&mut self, report: &CrowdReport) -> anyhow::Result<Vec<(usize, OrderToPay)>> {
        let mut ordered = Vec::new();
        for (index, sale) in self.sales.iter_mut().enumerate() {
            let Some(told) = report.told_at.get(&sale.sale.path) else { continue };
            let cancelled_before = sale.books.life.cancelled;
            sale.look(self.database).await?;
            // Where an order ended meanwhile, "sold out" was true before.
            if sale.books.life.cancelled == cancelled_before {
                let refused = told.count_refused(|codes| codes.contains(SOLD_OUT));
                let refused = i64::try_from(refused).unwrap_or(i64::MAX);
                sale.withheld += sale.books.stock.clamp(0, refused);
            }
            for order in &told.acknowledged {
                let Some(buyer) = sale.waiting.remove(&order.user_id) else { continue };
                let order_id = order.order_id.clone().unwrap_or_default();
                ordered.push((index, OrderToPay { buyer, order_id }));
            }
            sale.told.refused_buyers.clear();
            sale.told = std::mem::take(&mut sale.told).plus(told);
        }
        Ok(ordered)
    }

    /// Lets those pay who mean to. Returns how many came too late.
    async fn pay(&mut self, ordered: &[(usize, OrderToPay)]) -> usize {
        let pays = |(index, order): &&(usize, OrderToPay)| {
            self.sales[*index].payers.contains(&order.buyer.user_id)
        };
        let (indexes, orders): (Vec<usize>, Vec<OrderToPay>) =
            ordered.iter().filter(pays).cloned().unzip();
        let bar = progress::of("Paying", orders.len() as u64, "orders");
        let paying = demo_payments::pay(&self.nodes, &orders, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        let (mut paid, mut late) = (0, 0);
        for ((index, OrderToPay { buyer, .. }), paying) in
            indexes.into_iter().zip(orders).zip(paying)
        {
            let sale = &mut self.sales[index];
            if let Some(code) = paying.failure {
                *sale.failures.entry(code).or_default() += 1;
            }
            if let Some(payment) = paying.paid {
                paid += 1;
                sale.paid.push((buyer.user_id.parse().unwrap_or(-1), payment));
            }
            // The order expires, and the buyer comes again.
            if paying.is_late {
                late += 1;
                sale.waiting.insert(Arc::clone(&buyer.user_id), buyer);
            }
        }
        let too_late =
            if late > 0 { format!(", {late} came too late to pay") } else { String::new() };
        eprintln!("Wave {}: {} ordered, {paid} paid{too_late}.", self.count, ordered.len());
        late
    }

    /// Buyers pay when their wave is over. On a busy machine that may be too late, and would be again and
    /// again.
    async fn give_more_time(&mut self) -> anyhow::Result<()> {
        self.pay_within = (self.pay_within * 2).min(LONGEST_TO_PAY);
        let seconds = self.pay_within.as_secs();
        let pay_within_s = Some(i32::try_from(seconds)?);
        let change = VoucherChange { pay_within_s, ..VoucherChange::default() };
        for sale in &self.sales {
            vouchers::change(self.database.pool(), sale.sale.voucher.id, &change, None).await?;
        }
        eprintln!("The time to pay is {seconds} s from now on.");
        Ok(())
    }

    /// Waits until no order is unpaid, and what comes back is on sale at every node. Returns whether there
    /// is anything to sell.
    async fn settle(&mut self) -> anyhow::Result<bool> {
        for sale in &mut self.sales {
            sale.look(self.database).await?;
        }
        let unpaid: i64 = self.sales.iter().map(|sale| sale.books.life.unpaid).sum();
        if unpaid == 0 && self.sales.iter().all(SaleInWaves::is_paid_for) {
            return Ok(false);
        }
        let what =
            format!("Waiting for unpaid orders ({unpaid}) to expire, then wave {}", self.count + 1);
        let bar = progress::of_waiting(&what);
        let is_settled = self.wait_until_settled().await?;
        bar.finish_and_clear();
        Ok(is_settled && self.sales.iter().any(SaleInWaves::can_sell))
    }

    async fn wait_until_settled(&mut self) -> anyhow::Result<bool> {
        let until = Instant::now() + self.pay_within + EXPIRED_WITHIN;
        loop {
            let mut is_settled = true;
            for sale in &mut self.sales {
                sale.look(self.database).await?;
                sale.stuck = sale.find_unsettled(&self.nodes).await;
                is_settled &= sale.stuck.is_none();
            }
            if is_settled || Instant::now() >= until {
                return Ok(is_settled);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl SaleInWaves<'_> {
    async fn look(&mut self, database: &Database) -> anyhow::Result<()> {
        self.books = self.sale.audit(database).await?;
        let stock = i64::from(self.sale.voucher.initial_stock);
        self.most_oversold = self.most_oversold.max(self.books.orders - stock);
        Ok(())
    }

    fn is_paid_for(&self) -> bool {
        self.books.life.paid >= self.sale.voucher.initial_stock.into()
    }

    fn can_sell(&self) -> bool {
        self.books.stock > 0 && !self.waiting.is_empty()
    }

    /// What the next wave has to wait for.
    async fn find_unsettled(&self, nodes: &[SocketAddr]) -> Option<String> {
        let VoucherAudit { stock, life, .. } = &self.books;
        if life.unpaid > 0 {
            return Some(format!(
                "{} orders are unpaid long after their time was over",
                life.unpaid
            ));
        }
        if *stock <= 0 {
            return None;
        }
        let look = |node: &SocketAddr| Call {
            node: (*node).into(),
            method: Method::GET,
            path: format!("/api/vouchers/{}", self.sale.voucher.id),
            token: None,
            headers: Default::default(),
            body: Default::default(),
        };
        let looks: Vec<Call> = nodes.iter().map(look).collect();
        let shown = calls::send(&looks, looks.len(), EXPIRED_WITHIN).await;
        let is_on_sale = |body: &[u8]| {
            #[derive(Deserialize)]
            struct VoucherBody {
                status: String,
            }
            serde_json::from_slice(body).is_ok_and(|body: VoucherBody| body.status == "on_sale")
        };
        let hidden = shown
            .iter()
            .filter(|answer| answer.as_ref().is_none_or(|answer| !is_on_sale(&answer.body)));
        let hidden = hidden.count();
        (hidden > 0).then(|| format!("{hidden} nodes do not sell again the {stock} that came back"))
    }
}

/// Holds the books of each sale against what its buyers were told in all waves.
///
/// # Errors
/// When the database does not answer, or does not know a voucher any more.
pub async fn judge(
    database: &Database,
    sales: &[SaleInWaves<'_>],
) -> anyhow::Result<Vec<VoucherVerdict>> {
    let mut verdicts = Vec::with_capacity(sales.len());
    for SaleInWaves { sale, told, paid, failures, most_oversold, withheld, stuck, .. } in sales {
        let id = sale.voucher.id;
        let (books, life) = sale.books(database, told).await?;
        // The judge knows no orders that end. Those are the crowd's as well, and the buyers who were served
        // by them need have no order now.
        let ended = life.cancelled + life.refunded;
        let served = told.served.saturating_sub(ended.unsigned_abs());
        let told = Told { served, ..told.clone() };
        let books = Books { orders_of_crowd: books.orders + ended, ..books };
        let verdict = VoucherVerdict::new(id, sale.buyers.len() as i64, &books, &told);
        verdicts.push(verdict.with_payments(PaymentBooks {
            life,
            lost: demo_payments::count_lost(database, id, paid).await?,
            failures,
            most_oversold: *most_oversold,
            withheld: *withheld,
            stuck: stuck.as_deref(),
        }));
    }
    Ok(verdicts)
}

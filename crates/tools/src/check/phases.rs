//! Which crowds come, and in which order.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt};
use program::ConfigError;

use super::books::{self, QuietBooks};
use super::crowds::{BookedRush, CrowdSender, LAST_VOUCHER, RUSH};
use super::sale_record::SaleRecord;
use super::target::{TokenSource, VoucherSource};
use super::vouchers;

/// Buyers who click twice, at most.
const DOUBLE_CLICKERS: usize = 50;
/// Buyers of other crowds than the rush, at most: for a limit on what is sent at once.
pub const EXTRA_BUYERS: usize = DOUBLE_CLICKERS + 2 * COME_AGAIN;
/// Of the buyers of a voucher that is on sale already one in so many clicks twice.
const CLICKS_TWICE: usize = 20;
/// So many buyers want each of them.
const RIVALS: usize = 32;
/// So many buyers come where there is one for each.
const ENOUGH: usize = 200;
/// The stock in the rush, unless the file says another.
const RUSH_STOCK: u32 = 100;
/// Owners, and as many buyers without an order, who come again after the rush.
const COME_AGAIN: usize = 20;
/// How often each of them tries.
const TRIES_AGAIN: usize = 2;
/// Books that are waited for at once.
const BOOKS_AT_ONCE: usize = 4;

impl CrowdSender<'_> {
    /// Sends all crowds, and reads the books when they are quiet. `attempts` is how often a buyer tries who
    /// clicks twice; `rounds` is how many vouchers with a stock of one there are, where each crowd has its own.
    ///
    /// # Errors
    /// When the target cannot be reached, or the file cannot be used.
    pub async fn play(
        &mut self,
        attempts: usize,
        rounds: usize,
    ) -> Result<Vec<SaleRecord>, ConfigError> {
        let mut sales = match &self.target.vouchers {
            VoucherSource::Fixed(voucher) => {
                vec![self.one_voucher(voucher.clone(), attempts).await?]
            }
            VoucherSource::Command(_) | VoucherSource::Request { .. } => {
                self.a_voucher_for_each_crowd(attempts, rounds).await?
            }
        };
        for sale in &mut sales {
            // The number of a line is nobody's id.
            sale.knows_users = !matches!(self.target.tokens, TokenSource::Lines { .. });
            sale.count_repeated_yeses();
        }
        let Some(source) = &self.target.books else { return Ok(sales) };
        let target = self.target;
        let quiet = |mut sale: SaleRecord| async move {
            match books::until_quiet(target, source, &sale.voucher, sale.expected()).await {
                Ok(quiet) => sale.after = Some(quiet),
                Err(ConfigError(why)) => sale.unread = Some(why),
            }
            sale
        };
        eprintln!("Waiting until the books are quiet.");
        Ok(stream::iter(sales).map(quiet).buffered(BOOKS_AT_ONCE).collect().await)
    }

    /// The voucher that is on sale meets all crowds, one after another.
    async fn one_voucher(
        &mut self,
        voucher: String,
        attempts: usize,
    ) -> Result<SaleRecord, ConfigError> {
        let mut sale = SaleRecord::new(format!("voucher {voucher}"), voucher);
        if let Some(source) = &self.target.books {
            let first = books::read(self.target, source, &sale.voucher).await?;
            let quiet = books::until_quiet(self.target, source, &sale.voucher, 0).await;
            sale.before = Some(quiet.map_or(first, |quiet| quiet.reading));
        }
        let before = sale.before.as_ref();
        let left = before.and_then(|before| before.stock);
        let sold = before.map_or(0, |before| before.orders);
        sale.capacity = left.or_else(|| self.target.stock.map(|stock| i64::from(stock) - sold));
        if let Some(none) = sale.capacity.filter(|left| *left <= 0) {
            return Err(ConfigError(format!(
                "voucher {} has a stock of {none} left: put a new one on sale",
                sale.voucher
            )));
        }
        let users = self.buyers.len();
        let half = sale.capacity.map_or(usize::MAX, |left| left as usize / 2);
        let clickers = (users / CLICKS_TWICE).min(DOUBLE_CLICKERS).min(half).max(1);
        let twice: Vec<_> = (0..clickers).map(|buyer| (buyer, attempts)).collect();
        self.send(&mut sale, "double clicks", &twice).await?;
        let once: Vec<_> = (clickers..users).map(|buyer| (buyer, 1)).collect();
        self.rush(&mut sale, &once).await?;
        self.come_again(&mut sale).await?;
        Ok(sale)
    }

    /// When no more vouchers can be put on sale, the other crowds are left out, and the totals say so.
    async fn a_voucher_for_each_crowd(
        &mut self,
        attempts: usize,
        rounds: usize,
    ) -> Result<Vec<SaleRecord>, ConfigError> {
        let mut sales = Vec::new();
        let users = self.buyers.len();
        let clickers = users.min(DOUBLE_CLICKERS);
        let Some(mut sale) =
            self.new_sale(&sales, "double clicks".to_owned(), clickers as u32).await?
        else {
            return Ok(sales);
        };
        let twice: Vec<_> = (0..clickers).map(|buyer| (buyer, attempts)).collect();
        self.send(&mut sale, "double clicks", &twice).await?;
        sales.push(sale);

        let rivals: Vec<_> = (0..users.min(RIVALS)).map(|buyer| (buyer, 1)).collect();
        eprintln!("{LAST_VOUCHER}: {rounds} rounds of {} attempts", rivals.len());
        for round in 1..=rounds {
            let name = format!("last voucher, round {round}");
            let Some(mut sale) = self.new_sale(&sales, name, 1).await? else { return Ok(sales) };
            self.send(&mut sale, LAST_VOUCHER, &rivals).await?;
            sales.push(sale);
        }

        let enough = users.min(ENOUGH);
        let name = "enough for everybody";
        let Some(mut sale) = self.new_sale(&sales, name.to_owned(), enough as u32).await? else {
            return Ok(sales);
        };
        let once: Vec<_> = (0..enough).map(|buyer| (buyer, 1)).collect();
        self.send(&mut sale, name, &once).await?;
        sales.push(sale);

        let stock = self.target.stock.unwrap_or(RUSH_STOCK).min((users / 2).max(1) as u32);
        let Some(mut sale) = self.new_sale(&sales, RUSH.to_owned(), stock).await? else {
            return Ok(sales);
        };
        let once: Vec<_> = (0..users).map(|buyer| (buyer, 1)).collect();
        self.rush(&mut sale, &once).await?;
        self.come_again(&mut sale).await?;
        sales.push(sale);
        Ok(sales)
    }

    /// Puts a voucher on sale that none of the `others` was. `None`: it cannot be put on sale any more.
    async fn new_sale(
        &mut self,
        others: &[SaleRecord],
        name: String,
        stock: u32,
    ) -> Result<Option<SaleRecord>, ConfigError> {
        let voucher = match vouchers::put_on_sale(self.target, stock).await {
            // What was heard so far is worth telling.
            Err(ConfigError(why)) if !others.is_empty() => {
                self.totals.cut_short = Some(why);
                return Ok(None);
            }
            voucher => voucher?,
        };
        let Some(voucher) = voucher else { unreachable!("a fixed voucher meets all crowds") };
        if others.iter().any(|other| other.voucher == voucher) {
            return Err(ConfigError(format!(
                "[sale] put the voucher {voucher} on sale a second time: each crowd needs a new one"
            )));
        }
        let mut sale = SaleRecord::new(name, voucher);
        sale.capacity = Some(i64::from(stock));
        if let Some(source) = &self.target.books {
            let before = books::read(self.target, source, &sale.voucher).await;
            sale.before = if others.is_empty() { Some(before?) } else { before.ok() };
        }
        match sale.before.as_ref().map_or(0, |before| before.orders) {
            0 => Ok(Some(sale)),
            old => Err(ConfigError(format!(
                "[sale] put the voucher {} on sale, and it has {old} orders already: each crowd needs a \
                 new one",
                sale.voucher
            ))),
        }
    }

    /// Sends the rush, and counts what it left in the books.
    async fn rush(
        &mut self,
        sale: &mut SaleRecord,
        once: &[(usize, usize)],
    ) -> Result<(), ConfigError> {
        let before = match sale.heard.is_empty() {
            true => sale.before.as_ref().map(|before| before.orders),
            false => self.settled(sale).await.map(|books| books.reading.orders),
        };
        self.send(sale, RUSH, once).await?;
        let after = self.settled(sale).await;
        if let (Some(rush), Some(before), Some(after)) = (&mut self.totals.rush, before, after) {
            let orders = after.reading.orders - before;
            let behind = after.changed.saturating_duration_since(rush.ended);
            rush.booked = Some(BookedRush { orders, behind });
        }
        Ok(())
    }

    /// The books once they are quiet. `None`: they cannot be read, or never are.
    async fn settled(&self, sale: &mut SaleRecord) -> Option<QuietBooks> {
        let source = self.target.books.as_ref()?;
        sale.count_repeated_yeses();
        let books = books::until_quiet(self.target, source, &sale.voucher, sale.expected()).await;
        books.ok().filter(|books| books.is_quiet)
    }

    /// After the sell-out owners and others come again.
    async fn come_again(&mut self, sale: &mut SaleRecord) -> Result<(), ConfigError> {
        let owners: BTreeSet<usize> = sale.yeses().map(|answer| answer.buyer).collect();
        let all = sale.heard.iter().map(|answer| answer.buyer);
        let others: BTreeSet<usize> =
            all.filter(|buyer| !owners.contains(buyer)).take(COME_AGAIN).collect();
        let again = owners.into_iter().take(COME_AGAIN).chain(others);
        let again: Vec<_> = again.map(|buyer| (buyer, TRIES_AGAIN)).collect();
        self.send(sale, "repeats", &again).await
    }
}

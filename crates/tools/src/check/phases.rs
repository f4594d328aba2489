//! Which crowds come, and in which order.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use program::{ConfigError, progress};
use tokio::sync::Semaphore;

use super::books::{self, BooksWait, QuietBooks};
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
/// Stock of the voucher that warms a target up.
const WARM_STOCK: u32 = 100;
/// So many rounds of small crowds come for each of the large ones.
const SMALL_FOR_ONE_LARGE: usize = 10;
/// The name of the crowds whose buyers click several times.
const DOUBLE_CLICKS: &str = "double clicks";
/// The name of the crowds of which nobody may be refused.
const ENOUGH_FOR_ALL: &str = "enough for everybody";
/// Books that are looked at at once.
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
        // Of a limit that nobody tries to pass nothing is known.
        let attempts = attempts.max(self.target.per_user.map_or(0, |most| most as usize + 1));
        let mut sales = self.closed_vouchers().await?;
        match &self.target.vouchers {
            VoucherSource::Fixed(voucher) => {
                sales.push(self.one_voucher(voucher.clone(), attempts, rounds).await?);
            }
            _ => sales.extend(self.a_voucher_for_each_crowd(attempts, rounds).await?),
        }
        for sale in &mut sales {
            // The number of a line is nobody's id.
            sale.knows_users = !matches!(self.target.tokens, TokenSource::Lines { .. });
            sale.expire = self.target.books.as_ref().and_then(|books| books.expire);
            sale.count_repeated_yeses();
        }
        let Some(source) = &self.target.books else { return Ok(sales) };
        let most = humantime::format_duration(source.within);
        let what = format!("Waiting until the books are quiet, {most} at most");
        let bar = progress::of(&what, sales.len() as u64, "vouchers");
        let (target, turns, seen) = (self.target, Semaphore::new(BOOKS_AT_ONCE), &bar);
        let wait = BooksWait { turns: &turns, is_final: true };
        let quiet = |mut sale: SaleRecord| async move {
            let expected = || sale.expected();
            match books::until_quiet(target, source, &sale.voucher, expected, wait).await {
                Ok(quiet) => sale.after = Some(quiet),
                Err(ConfigError(why)) => sale.unread = Some(why),
            }
            seen.inc(1);
            sale
        };
        let sales = join_all(sales.into_iter().map(quiet)).await;
        bar.finish_and_clear();
        Ok(sales)
    }

    /// Vouchers that must sell nothing.
    async fn closed_vouchers(&mut self) -> Result<Vec<SaleRecord>, ConfigError> {
        let mut sales = Vec::new();
        for voucher in &self.target.closed {
            let mut sale = SaleRecord::new(format!("closed voucher {voucher}"), voucher.clone());
            sale.is_closed = true;
            if let Some(source) = &self.target.books {
                sale.before = Some(books::read(self.target, source, voucher).await?);
            }
            let once = self.turn(RIVALS).into_iter().map(|buyer| (buyer, 1)).collect::<Vec<_>>();
            self.send(&mut sale, "closed", &once).await?;
            sales.push(sale);
        }
        Ok(sales)
    }

    /// The voucher that is on sale meets all crowds, one after another.
    async fn one_voucher(
        &mut self,
        voucher: String,
        attempts: usize,
        rounds: usize,
    ) -> Result<SaleRecord, ConfigError> {
        let mut sale = SaleRecord::new(format!("voucher {voucher}"), voucher);
        if let Some(source) = &self.target.books {
            let first = books::read(self.target, source, &sale.voucher).await?;
            let (turns, voucher) = (Semaphore::new(1), &sale.voucher);
            let wait = BooksWait { turns: &turns, is_final: false };
            let quiet = books::until_quiet(self.target, source, voucher, || 0, wait).await;
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
        let most = self.target.per_user.map_or(attempts, |most| most as usize);
        let half = sale.capacity.map_or(usize::MAX, |left| left as usize / 2 / most);
        let clickers = (users / CLICKS_TWICE).min(DOUBLE_CLICKERS).min(half).max(1);
        // Few at a time: the closer together they are, the narrower a gap is found.
        for turn in self.turn(clickers).chunks(clickers.div_ceil(rounds)) {
            let twice: Vec<_> = turn.iter().map(|&buyer| (buyer, attempts)).collect();
            self.send(&mut sale, DOUBLE_CLICKS, &twice).await?;
        }
        // For these there is enough: nobody may be refused.
        let quarter =
            sale.capacity.map_or(users / CLICKS_TWICE, |left| left as usize / 4).min(ENOUGH);
        let early: Vec<_> = (clickers..users).take(quarter).map(|buyer| (buyer, 1)).collect();
        self.send(&mut sale, "early", &early).await?;
        let once: Vec<_> = (clickers + early.len()..users).map(|buyer| (buyer, 1)).collect();
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
        let rounds = match &self.target.vouchers {
            VoucherSource::Listed(vouchers) => rounds.min((vouchers.len() / 2).saturating_sub(1)),
            _ => {
                let warm = self.new_sale(&[], "warm-up".to_owned(), WARM_STOCK).await?;
                self.warm = warm.map(|warm| warm.voucher);
                self.warm_up().await?;
                rounds
            }
        };
        let large = 1.max(rounds / SMALL_FOR_ONE_LARGE);
        let crowds = [
            (DOUBLE_CLICKS, rounds),
            (LAST_VOUCHER, rounds),
            (ENOUGH_FOR_ALL, large),
            (RUSH, large),
        ];
        for (crowd, rounds) in crowds {
            for round in 1..=rounds {
                let name =
                    if rounds > 1 { format!("{crowd}, round {round}") } else { crowd.to_owned() };
                let Some(sale) = self.round(&sales, crowd, name, attempts).await? else {
                    return Ok(sales);
                };
                sales.push(sale);
            }
        }
        Ok(sales)
    }

    /// One crowd with a voucher of its own. `None`: none can be put on sale any more.
    async fn round(
        &mut self,
        others: &[SaleRecord],
        crowd: &'static str,
        name: String,
        attempts: usize,
    ) -> Result<Option<SaleRecord>, ConfigError> {
        let users = self.buyers.len();
        let most = self.target.per_user.unwrap_or(1);
        let stock = match crowd {
            DOUBLE_CLICKS => users.min(DOUBLE_CLICKERS) as u32 * most,
            LAST_VOUCHER => 1,
            ENOUGH_FOR_ALL => users.min(ENOUGH) as u32,
            _ => self.target.stock.unwrap_or(RUSH_STOCK).min((users / 2).max(1) as u32),
        };
        let Some(mut sale) = self.new_sale(others, name, stock).await? else { return Ok(None) };
        let (come, tries) = match crowd {
            DOUBLE_CLICKS => (DOUBLE_CLICKERS, attempts),
            LAST_VOUCHER => (RIVALS, 1),
            // What is listed may be less.
            ENOUGH_FOR_ALL => {
                (sale.capacity.map_or(ENOUGH, |left| left.max(0) as usize).min(ENOUGH), 1)
            }
            _ => (users, 1),
        };
        let crowd_of: Vec<_> = self.turn(come).into_iter().map(|buyer| (buyer, tries)).collect();
        if crowd == RUSH {
            self.rush(&mut sale, &crowd_of).await?;
            self.come_again(&mut sale).await?;
        } else {
            self.send(&mut sale, crowd, &crowd_of).await?;
        }
        Ok(Some(sale))
    }

    /// Puts a voucher on sale that none of the `others` was. `None`: it cannot be put on sale any more.
    async fn new_sale(
        &mut self,
        others: &[SaleRecord],
        name: String,
        stock: u32,
    ) -> Result<Option<SaleRecord>, ConfigError> {
        let number = self.put_on_sale;
        self.put_on_sale += 1;
        let voucher = match vouchers::put_on_sale(self.target, stock, number).await {
            // What was heard so far is worth telling.
            Err(ConfigError(why)) if !others.is_empty() => {
                self.totals.cut_short = Some(why);
                return Ok(None);
            }
            voucher => voucher?,
        };
        let Some(voucher) = voucher else { unreachable!("a fixed voucher meets all crowds") };
        let is_warm = self.warm.as_ref() == Some(&voucher);
        if is_warm || others.iter().any(|other| other.voucher == voucher) {
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
        if matches!(self.target.vouchers, VoucherSource::Listed(_)) {
            let left = sale.before.as_ref().and_then(|before| before.stock);
            sale.capacity = left.or(self.target.stock.map(i64::from));
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
        let (turns, voucher) = (Semaphore::new(1), &sale.voucher);
        let wait = BooksWait { turns: &turns, is_final: false };
        let expected = || sale.expected();
        let books = books::until_quiet(self.target, source, voucher, expected, wait).await;
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

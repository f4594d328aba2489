//! `seckill demo --pay SHARE`: how many buyers pay, who they are, and whether that ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use load::crowd::Buyer;
use seckill::config::ConfigError;

/// Decides who pays: the same buyers in every run of the same size.
const SEED: u64 = 2022;
/// A wave takes this much longer than the time to pay: servers look for unpaid orders once a second, and
/// remember a sale for a second.
const OVERHEAD: Duration = Duration::from_secs(2);
/// A demo that would take longer is not begun.
const ENDS_WITHIN: Duration = Duration::from_secs(600);

/// A share of buyers: above 0, and at most 1.
///
/// # Errors
/// When it is none.
pub fn parse(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "it is no number above 0 and up to 1, such as 0.7".to_owned())
}

/// The buyers of one voucher.
#[derive(Debug, Clone, Copy)]
pub struct Buyers {
    /// All of them.
    pub users: usize,
    /// The share that pays.
    pub share: f64,
}

impl Buyers {
    /// How many pay.
    fn payers(self) -> usize {
        (self.share * self.users as f64).round() as usize
    }

    /// How long the demo takes for a voucher with this `stock`, where each wave has `pay_within` to pay.
    ///
    /// # Errors
    /// When the vouchers cannot all be paid for, or not within ten minutes.
    pub fn check(self, stock: usize, pay_within: Duration) -> Result<Duration, ConfigError> {
        let Self { users, share } = self;
        let payers = self.payers();
        if payers < stock {
            return Err(ConfigError(format!(
                "of {users} buyers of a voucher {payers} pay with --pay {share}, too few for a stock of \
                 {stock}: raise --users or --pay, or lower --stock"
            )));
        }
        let wave = pay_within + OVERHEAD;
        let most = (ENDS_WITHIN.as_secs() / wave.as_secs()) as u32;
        match self.waves(stock, most) {
            Some(waves) => Ok(wave * waves),
            None => Err(ConfigError(format!(
                "with --pay {share} it would take more than {most} waves of {} s each until a stock of \
                 {stock} is paid for: raise --pay",
                wave.as_secs()
            ))),
        }
    }

    /// How many waves are expected until all is paid for; `None`: more than `most`. Each wave sells what is
    /// left, and those who bought and did not pay never come again.
    fn waves(self, stock: usize, most: u32) -> Option<u32> {
        let mut left = stock as f64;
        let mut payers = self.payers() as f64;
        let mut others = self.users as f64 - payers;
        (0..=most).find(|_| {
            let is_over = left < 0.5;
            let paid = left * payers / (payers + others).max(1.0);
            others -= left - paid;
            payers -= paid;
            left -= paid;
            is_over
        })
    }

    /// The names of those of `buyers` who pay.
    pub fn choose(self, buyers: &[Buyer]) -> HashSet<Arc<str>> {
        let mut names: Vec<_> = buyers.iter().map(|buyer| Arc::clone(&buyer.user_id)).collect();
        names.shuffle(&mut StdRng::seed_from_u64(SEED));
        names.truncate(self.payers());
        names.into_iter().collect()
    }
}

/// How long a buyer has to pay: a few seconds, and more in a large demo, in which so many purchases are sent
/// at once and so many orders are paid for.
pub fn pay_within(requests: u64, orders: u64) -> Duration {
    // Paying is three requests, with two commits or three.
    Duration::from_secs(3 + (requests + 20 * orders) / 3_500)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(4);

    #[test]
    fn a_share_is_above_0_and_at_most_1() {
        assert_eq!(["0.7", "1", "1e-3"].map(|text| parse(text).unwrap()), [0.7, 1.0, 0.001]);
        for wrong in ["0", "-0.5", "1.5", "NaN", "inf", "", "0,7", "70%"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_end_is_refused_and_what_can_is_foreseen() {
        let check = |users, share, stock| Buyers { users, share }.check(stock, WITHIN);
        assert_eq!(check(1_000, 1.0, 100).unwrap(), Duration::from_secs(6));
        // 100, 30, 9, 3, and the last one: then less than half a voucher is left.
        assert_eq!(check(1_000, 0.7, 100).unwrap(), Duration::from_secs(5 * 6));
        assert_eq!(check(1_000, 0.5, 0).unwrap(), Duration::ZERO);
        assert!(check(100, 0.7, 70).is_ok());
        let refusal = |users, share, stock| check(users, share, stock).unwrap_err().to_string();
        assert!(refusal(100, 0.7, 71).contains("70 pay with --pay 0.7, too few for a stock of 71"));
        assert!(refusal(1_000, 1e-9, 1).contains("0 pay"));
        assert!(refusal(100_000, 0.01, 1_000).contains("more than 100 waves of 6 s"));
    }

    #[test]
    fn the_same_buyers_pay_every_time_and_as_many_as_the_share_says() {
        let buyers: Vec<Buyer> =
            (0..10).map(|user| Buyer::from(&(user, "token".to_owned()))).collect();
        let choose = |share| Buyers { users: 10, share }.choose(&buyers);
        assert_eq!(choose(0.7), choose(0.7));
        assert_eq!([0.04, 0.5, 0.7, 1.0].map(|share| choose(share).len()), [0, 5, 7, 10]);
    }
}

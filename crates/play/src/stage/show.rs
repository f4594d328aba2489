//! What there is to see of a show.

use load::crowd::BuyersTold;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::verdict::ShowVerdict;
use seckill::model::VoucherId;

/// One point of a plot is so long.
const POINT_MS: u64 = 100;
/// More points than a show can have: it takes ten minutes at most.
const MAX_POINTS: usize = 6_000;

/// How the crowd comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CrowdKind {
    /// Everybody at once.
    Rush,
    /// One after another, so that a person can buy among them.
    Slow,
    /// One after another to two servers, of which one may be killed.
    Failover,
}

/// How far a show is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShowPhase {
    /// There was none since the server started.
    Idle,
    /// Buyers are made; of a rung also its servers.
    Preparing,
    /// The sale begins in a moment.
    Countdown,
    /// The crowd is there.
    Selling,
    /// The database is audited.
    Auditing,
    /// There is a verdict.
    Ended,
    /// It came to no end.
    Failed,
}

impl ShowPhase {
    /// Whether there is more to come.
    pub(super) const fn is_under_way(self) -> bool {
        !matches!(self, Self::Idle | Self::Ended | Self::Failed)
    }
}

/// Why a show came to no end. The page has a sentence for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShowFailure {
    /// Which sentence.
    pub(super) code: &'static str,
    /// What only the server knows.
    pub(super) detail: String,
}

impl ShowFailure {
    /// One of which the page's sentence says all.
    pub(super) const fn without_detail(code: &'static str) -> Self {
        Self { code, detail: String::new() }
    }
}

/// What one buyer of a half knows so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dot {
    Waiting,
    Refused,
    Bought,
    /// Bought when nothing was left, or a second time.
    Wrong,
}

/// One seller with its crowd.
#[derive(Debug, Clone)]
pub(super) struct ShowHalf {
    /// Tells it from all other halves of this process.
    pub(super) run: u64,
    /// The rung that sells; `None`: this server does.
    pub(super) rung: Option<&'static str>,
    pub(super) stock: u64,
    /// What is sold in the shop.
    pub(super) voucher: Option<VoucherId>,
    /// Attempts in all, and those that are over.
    pub(super) total: u64,
    pub(super) done: u64,
    /// Yeses so far.
    pub(super) sold: u64,
    /// Vouchers left by what the server knows: people may buy beside the crowd.
    pub(super) known_left: Option<u64>,
    /// Orders of people who bought beside the crowd.
    pub(super) others: i64,
    /// So many vouchers were left when one of two servers was killed.
    pub(super) killed_at: Option<i64>,
    /// One a buyer.
    pub(super) dots: Vec<Dot>,
    /// Answers and yeses in each tenth of a second since the first answer.
    points: Vec<[u64; 2]>,
    /// When the first answer came, by the crowd's clock.
    first_ms: Option<u64>,
    pub(super) verdict: Option<ShowVerdict>,
}

impl ShowHalf {
    pub(super) fn new(
        run: u64,
        rung: Option<&'static str>,
        users: u32,
        stock: i32,
        attempts: usize,
    ) -> Self {
        Self {
            run,
            rung,
            stock: u64::from(stock.unsigned_abs()),
            voucher: None,
            total: u64::from(users) * attempts as u64,
            done: 0,
            sold: 0,
            known_left: None,
            others: 0,
            killed_at: None,
            dots: vec![Dot::Waiting; users as usize],
            points: Vec::new(),
            first_ms: None,
            verdict: None,
        }
    }

    /// Takes in what the crowd was told since the last time.
    pub(super) fn hear(&mut self, told: &BuyersTold) {
        self.plot(told);
        let left = self.stock.saturating_sub(self.sold) as usize;
        (self.done, self.sold) = (told.done, told.ordered);
        let changes = &told.changes;
        // An order whose yes nobody heard is none of the yeses that are counted.
        for buyer in &changes.has_order {
            self.set(*buyer, Dot::Bought);
        }
        for (at, buyer) in changes.bought.iter().enumerate() {
            self.set(*buyer, if at < left { Dot::Bought } else { Dot::Wrong });
        }
        for (buyers, dot) in [(&changes.refused, Dot::Refused), (&changes.bought_again, Dot::Wrong)]
        {
            for buyer in buyers {
                self.set(*buyer, dot);
            }
        }
    }

    fn set(&mut self, buyer: u32, dot: Dot) {
        if let Some(place) = self.dots.get_mut(buyer as usize) {
            *place = dot;
        }
    }

    fn plot(&mut self, told: &BuyersTold) {
        if told.done == 0 {
            return;
        }
        let first_ms = *self.first_ms.get_or_insert(told.at_ms);
        let at = (told.at_ms.saturating_sub(first_ms) / POINT_MS) as usize;
        if at < MAX_POINTS {
            self.points.resize(self.points.len().max(at + 1), [0, 0]);
            self.points[at][0] += told.done.saturating_sub(self.done);
            self.points[at][1] += told.ordered.saturating_sub(self.sold);
        }
    }

    /// Vouchers left, as they are shown: below zero what was sold beyond the stock.
    pub(super) fn left(&self) -> i64 {
        let after = |sold: i64| self.stock.cast_signed() - sold;
        match (&self.verdict, self.known_left) {
            (Some(verdict), _) => after(verdict.sold),
            (None, Some(left)) => after(self.sold.cast_signed()).min(left.cast_signed()),
            (None, None) => after(self.sold.cast_signed()),
        }
    }

    /// Every attempt was answered: who waits goes away empty.
    pub(super) fn close(&mut self) {
        for dot in &mut self.dots {
            if *dot == Dot::Waiting {
                *dot = Dot::Refused;
            }
        }
    }

    /// The points that do not change any more.
    pub(super) fn points(&self) -> &[[u64; 2]] {
        let changing = usize::from(self.verdict.is_none());
        &self.points[..self.points.len().saturating_sub(changing)]
    }
}

/// A show: this server, and beside it a rung, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Show {
    pub(super) number: u64,
    pub(super) crowd: CrowdKind,
    pub(super) phase: ShowPhase,
    pub(super) begins_at: Option<Instant>,
    pub(super) failure: Option<ShowFailure>,
    /// Decides the order of the buyers.
    pub(super) seed: u64,
    pub(super) halves: Vec<ShowHalf>,
}

impl Show {
    /// Before the first one.
    pub(super) const fn none() -> Self {
        Self {
            number: 0,
            crowd: CrowdKind::Rush,
            phase: ShowPhase::Idle,
            begins_at: None,
            failure: None,
            seed: 0,
            halves: Vec::new(),
        }
    }

    /// The half of this server, once a rush is judged: a rung may stand beside it.
    pub(super) fn finished_rush(&self) -> Option<&ShowHalf> {
        let ours = self.halves.first()?;
        (self.crowd == CrowdKind::Rush && ours.verdict.is_some()).then_some(ours)
    }

    /// Has one of two servers killed, in the middle of their sale. Returns whether there are two.
    pub(super) fn kill(&mut self) -> bool {
        let is_in_the_middle =
            self.crowd == CrowdKind::Failover && self.phase == ShowPhase::Selling;
        if let Some(half) = self.halves.last_mut().filter(|_| is_in_the_middle) {
            half.killed_at = half.killed_at.or(Some(half.left()));
        }
        is_in_the_middle
    }

    /// Changes the half that is under way.
    pub(super) fn half(&mut self) -> &mut ShowHalf {
        let Some(half) = self.halves.last_mut() else { unreachable!("a show has begun a half") };
        half
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::rush::BuyerChanges;

    fn told(at_ms: u64, done: u64, bought: &[u32], again: &[u32], ordered: u64) -> BuyersTold {
        let (bought, bought_again) = (bought.to_vec(), again.to_vec());
        let changes = BuyerChanges { bought, bought_again, ..Default::default() };
        BuyersTold { at_ms, done, ordered, changes }
    }

    #[test]
    fn who_buys_beyond_the_stock_or_twice_is_shown_as_wrong() {
        use Dot::{Bought, Refused, Waiting, Wrong};
        let mut half = ShowHalf::new(1, None, 6, 2, 1);
        half.hear(&told(0, 1, &[0], &[], 1));
        assert_eq!(half.dots, [Bought, Waiting, Waiting, Waiting, Waiting, Waiting]);
        half.hear(&told(50, 3, &[1, 2], &[], 3));
        half.hear(&told(100, 5, &[3], &[0], 5));
        assert_eq!(half.dots[..4], [Wrong, Bought, Wrong, Wrong]);
        assert_eq!((half.sold, half.done), (5, 5));
        half.close();
        assert_eq!(half.dots[4..], [Refused, Refused]);
        // A buyer who has an order unheard is no yes, and takes no voucher from the others.
        let has_order = BuyerChanges { has_order: vec![0], ..Default::default() };
        let mut half = ShowHalf::new(1, None, 2, 1, 1);
        half.hear(&BuyersTold { at_ms: 0, done: 1, ordered: 0, changes: has_order });
        half.hear(&told(50, 2, &[0], &[], 1));
        assert_eq!((&half.dots[..], half.left()), (&[Bought, Waiting][..], 0));
        let mut half = ShowHalf::new(1, None, 6, 2, 1);
        half.dots.fill(Bought);
        // A buyer who is none is nobody's dot.
        half.hear(&told(100, 6, &[6, u32::MAX], &[9], 5));
        assert_eq!(half.dots.len(), 6);
    }

    #[test]
    fn what_others_buy_is_gone_from_what_is_left() {
        let mut half = ShowHalf::new(1, None, 6, 4, 1);
        assert_eq!(half.left(), 4);
        half.hear(&told(0, 1, &[0], &[], 1));
        for (known, left) in [(Some(4), 3), (Some(3), 3), (Some(1), 1), (Some(0), 0), (None, 3)] {
            half.known_left = known;
            assert_eq!(half.left(), left, "{known:?}");
        }
        half.hear(&told(50, 6, &[1, 2, 3, 4, 5], &[], 6));
        assert_eq!(half.left(), -2);
    }

    #[test]
    fn a_point_is_a_tenth_of_a_second_and_there_is_a_last_one() {
        let mut half = ShowHalf::new(1, None, 1, 1, 1);
        half.hear(&told(400, 0, &[], &[], 0));
        assert!(half.points.is_empty());
        for (at_ms, done, ordered) in [(450, 10, 1), (549, 15, 2), (550, 16, 2), (760, 20, 3)] {
            half.hear(&told(at_ms, done, &[], &[], ordered));
        }
        assert_eq!(half.points, [[15, 2], [1, 0], [0, 0], [4, 1]]);
        assert_eq!(half.points().len(), 3);
        let last = MAX_POINTS as u64 * POINT_MS;
        for (at_ms, points) in [(last - 1, MAX_POINTS), (last, MAX_POINTS), (last * 9, MAX_POINTS)]
        {
            half.hear(&told(450 + at_ms, 21, &[], &[], 3));
            assert_eq!(half.points.len(), points);
        }
    }
}

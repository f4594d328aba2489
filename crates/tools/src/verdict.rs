//! The verdict on a demo: that on each sale, and all together.

use std::ops::AddAssign;

use serde::Serialize;

use super::demo_against::Against;
use super::demo_draw::DrawFigures;
use load::crowd::CrowdReport;
use load::told::{Outcomes, Told};
use load::verdict::{Books, CrowdVerdict, Expectations, Figures, Finding, Verdict, judge};
use seckill::model::VoucherId;
use seckill::purchase::audit::{OrderLives, VoucherAudit};

/// The books of a voucher for the judge, of whose orders `orders_of_crowd` are the crowd's. `lost` comes
/// from [`count_lost`](seckill::purchase::audit::count_lost).
#[must_use]
pub fn books(audit: &VoucherAudit, orders_of_crowd: i64, lost: i64) -> Books {
    let VoucherAudit { initial_stock, stock, orders, distinct_users, .. } = *audit;
    let (twice, objections) = (None, audit.beyond_figures());
    Books { initial_stock, stock, orders, distinct_users, orders_of_crowd, lost, twice, objections }
}

/// What was asked for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Terms {
    /// Attempts of each buyer.
    pub attempts: usize,
    /// Server processes.
    pub nodes: usize,
    /// How it was sold.
    pub strategy: &'static str,
    /// The share of the buyers that pays; `None`: the vouchers are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pay: Option<f64>,
}

/// What became of the orders and the money, where vouchers cost something.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct PaymentFigures {
    /// Orders that are paid.
    pub paid: i64,
    /// Orders that were not paid in time.
    pub expired: i64,
    /// Orders that were cancelled, by time or otherwise.
    pub cancelled: i64,
    /// Payments that were confirmed.
    pub payments: i64,
    /// Payments whose money went back.
    pub refunds: i64,
    /// Payments of which buyers were told, and which paid for no order of theirs.
    pub lost_payments: i64,
}

impl AddAssign for PaymentFigures {
    fn add_assign(&mut self, other: Self) {
        self.paid += other.paid;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.payments += other.payments;
        self.refunds += other.refunds;
        self.lost_payments += other.lost_payments;
    }
}

/// How often the crowd came.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WaveFigures {
    /// The rush, and those that came for what was not paid.
    pub waves: usize,
    /// From the beginning of the rush until nothing was left to pay.
    pub all_waves_ms: f64,
}

/// What is known of the payments of one voucher.
#[derive(Debug, Clone, Copy)]
pub struct PaymentBooks<'a> {
    /// What became of its orders.
    pub life: OrderLives,
    /// As [`PaymentFigures::lost_payments`].
    pub lost: i64,
    /// Payments without a proper answer.
    pub failures: &'a Outcomes,
    /// Orders beyond the stock, at the worst time.
    pub most_oversold: i64,
    /// Vouchers that were left when buyers were told that none is.
    pub withheld: i64,
    /// What never came to an end.
    pub stuck: Option<&'a str>,
}

/// The verdict on one voucher.
#[derive(Debug, Clone, Serialize)]
pub struct VoucherVerdict {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// What was found.
    #[serde(flatten)]
    pub figures: Figures,
    /// Where it costs something.
    #[serde(flatten)]
    pub payments: Option<PaymentFigures>,
    /// Whether every promise was kept.
    pub holds: bool,
    /// What was not as it should be.
    #[serde(skip)]
    pub verdict: Verdict,
}

impl VoucherVerdict {
    /// Judges a sale that `users` had for themselves, and what they were told of it.
    #[must_use]
    pub fn new(voucher_id: VoucherId, users: i64, books: &Books, told: &Told) -> Self {
        let verdict = judge(books, told, &Expectations::ALONE);
        let figures = Figures::new(users, books, &verdict);
        Self { voucher_id, figures, payments: None, holds: verdict.holds(), verdict }
    }

    /// Judges the payments, too: in the end every voucher is paid for, once, by a buyer who has it.
    #[must_use]
    pub fn with_payments(mut self, books: PaymentBooks<'_>) -> Self {
        let PaymentBooks { life, lost, failures, most_oversold, withheld, stuck } = books;
        let OrderLives { unpaid, paid, cancelled, expired, payments, refunds, .. } = life;
        let Figures { stock, found, .. } = self.figures;
        let findings = &mut self.verdict.findings;
        let mut find = |is_found: bool, it: Finding| findings.extend(is_found.then_some(it));
        find(most_oversold > found.oversold, Finding::OversoldMeanwhile(most_oversold));
        find(withheld > 0, Finding::Withheld(withheld));
        find(paid != stock, Finding::NotAllPaid { paid, stock });
        find(unpaid > 0, Finding::Unpaid(unpaid));
        find(payments - refunds != paid, Finding::PaymentsDiffer { payments, refunds, paid });
        find(lost > 0, Finding::LostPayments(lost));
        find(!failures.is_empty(), Finding::PaymentsFailed(failures.clone()));
        find(stuck.is_some(), Finding::Objection(stuck.unwrap_or_default().to_owned()));
        self.figures.found = self.verdict.counts();
        let lost_payments = lost;
        self.payments =
            Some(PaymentFigures { paid, expired, cancelled, payments, refunds, lost_payments });
        self.holds = self.verdict.findings.is_empty();
        self
    }
}

/// The result of a demo; the JSON of `seckill demo --json`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // fixed by the product; the names say it
pub struct DemoVerdict {
    #[serde(flatten)]
    pub terms: Terms,
    /// Where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voucher_id: Option<VoucherId>,
    /// In all; its rates and latencies are those of the rush, with payments of the first.
    #[serde(flatten)]
    pub crowd: CrowdVerdict,
    /// Where vouchers cost something.
    #[serde(flatten)]
    pub payments: Option<PaymentFigures>,
    /// Where vouchers cost something.
    #[serde(flatten)]
    pub waves: Option<WaveFigures>,
    /// Each voucher on sale.
    pub vouchers: Vec<VoucherVerdict>,
    /// What came of the same crowd at a design of the ladder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// The buyers who got a voucher by the draw, and those who got one by coming first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<DrawFigures>,
}

impl DemoVerdict {
    /// Sums up the verdicts on all `vouchers`.
    pub fn new(
        terms: Terms,
        vouchers: Vec<VoucherVerdict>,
        crowd: &CrowdReport,
        waves: Option<WaveFigures>,
    ) -> Self {
        let mut figures = Figures::default();
        let mut payments = PaymentFigures::default();
        for voucher in &vouchers {
            figures += voucher.figures;
            payments += voucher.payments.unwrap_or_default();
        }
        let holds = vouchers.iter().all(|voucher| voucher.holds);
        Self {
            terms,
            payments: terms.pay.map(|_| payments),
            voucher_id: if let [only] = &vouchers[..] { Some(only.voucher_id) } else { None },
            crowd: CrowdVerdict::new(figures, crowd, holds),
            waves,
            vouchers,
            against: None,
            draw: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use load::verdict::Counts;
    use seckill::purchase::audit::{Promise, Violation};

    use super::*;

    fn violation(promise: Promise) -> Violation {
        Violation { promise, what: "counted".to_owned() }
    }

    /// Of ten vouchers so many were sold, and the column says that so many are left.
    fn sold(orders: i64, stock: i64) -> VoucherVerdict {
        let Some(voucher_id) = VoucherId::new(1) else { unreachable!("1 is positive") };
        let audit = VoucherAudit {
            life: Default::default(),
            voucher_id,
            initial_stock: 10,
            stock,
            orders,
            distinct_users: orders,
            holds: true,
            violations: vec![violation(Promise::NoOversell)],
        };
        let served = orders.unsigned_abs();
        let outcomes = [("ordered".to_owned(), served)].into();
        let told = Told { outcomes, served, ..Told::default() };
        VoucherVerdict::new(voucher_id, 20, &books(&audit, orders, 0), &told)
    }

    fn together(vouchers: &[VoucherVerdict]) -> DemoVerdict {
        let crowd = CrowdReport {
            told_at: [].into(),
            connections: 1,
            elapsed_ms: 1000.0,
            answers_per_s: 20.0,
            latency_ms: None,
        };
        let terms = Terms { attempts: 1, nodes: 1, strategy: "locked", pay: None };
        DemoVerdict::new(terms, vouchers.to_vec(), &crowd, None)
    }

    /// One voucher too many here and one too few there are two mistakes, and not none.
    #[test]
    fn sales_hold_together_only_when_each_of_them_does() {
        let (good, oversold, undersold) = (sold(10, 0), sold(11, -1), sold(9, 0));
        let all = together(&[good.clone(), good.clone()]);
        assert!(all.crowd.holds && all.voucher_id.is_none());
        let Figures { stock, users, orders, .. } = all.crowd.figures;
        assert_eq!((stock, users, orders), (20, 40, 20));
        let all = together(&[good, oversold, undersold]);
        assert!(!all.crowd.holds);
        let Figures { orders, found, .. } = all.crowd.figures;
        assert_eq!((orders, found.oversold, found.undersold), (30, 1, 1));
    }

    #[test]
    fn in_the_end_every_voucher_is_paid_for_once_by_a_buyer_who_has_it() {
        let life =
            OrderLives { paid: 10, payments: 10, expired: 4, cancelled: 4, ..Default::default() };
        let (none, failures) = (Outcomes::new(), Outcomes::from([("http_500".to_owned(), 2)]));
        let (lost, most_oversold, withheld) = (0, 0, 0);
        let good =
            PaymentBooks { life, lost, failures: &none, most_oversold, withheld, stuck: None };
        let verdict = sold(10, 0).with_payments(good);
        assert!(verdict.holds, "{:?}", verdict.verdict);
        let paid = |paid| OrderLives { paid, payments: paid, ..life };
        for (books, sentence) in [
            (PaymentBooks { life: paid(9), ..good }, "9 paid orders for a stock of 10"),
            (PaymentBooks { life: paid(11), ..good }, "11 paid orders for a stock of 10"),
            (
                PaymentBooks { life: OrderLives { unpaid: 1, ..life }, ..good },
                "1 orders are unpaid",
            ),
            (
                PaymentBooks { life: OrderLives { payments: 11, ..life }, ..good },
                "11 payments, less 0 given back, of 10 paid orders",
            ),
            (
                PaymentBooks { lost: 2, ..good },
                "2 payments that buyers were told of paid for no order of theirs",
            ),
            (
                PaymentBooks { failures: &failures, ..good },
                "payments without a proper answer: 2 http_500",
            ),
            (
                PaymentBooks { most_oversold: 3, ..good },
                "3 sold that did not exist, before the end",
            ),
            (PaymentBooks { withheld: 3, ..good }, "3 left while buyers were told that nothing is"),
            (PaymentBooks { stuck: Some("it hangs"), ..good }, "it hangs"),
        ] {
            let verdict = sold(10, 0).with_payments(books);
            assert!(!verdict.holds);
            assert_eq!(verdict.verdict.sentences(), [sentence]);
            let Counts { oversold, undersold, .. } = verdict.figures.found;
            assert_eq!((oversold, undersold), (books.most_oversold, books.withheld));
        }
        // Money that went back is no payment of an order.
        let returned = OrderLives { payments: 11, refunds: 1, ..life };
        assert!(sold(10, 0).with_payments(PaymentBooks { life: returned, ..good }).holds);
    }

    #[test]
    fn what_only_an_audit_sees_is_held_against_the_sale() {
        let Some(voucher_id) = VoucherId::new(1) else { unreachable!("1 is positive") };
        let violations = vec![violation(Promise::NoOversell), violation(Promise::Orphans)];
        let (stock, orders) = (0, 0);
        let audit = VoucherAudit {
            life: Default::default(),
            voucher_id,
            initial_stock: 0,
            stock,
            orders,
            distinct_users: 0,
            holds: false,
            violations,
        };
        let verdict = VoucherVerdict::new(voucher_id, 0, &books(&audit, 0, 0), &Told::default());
        assert!(!verdict.holds);
        assert_eq!(verdict.verdict.sentences(), ["orphans: counted"]);
    }
}

//! One voucher as the judge of all crowds knows sales: what the books say, and what buyers were told.

use std::collections::{BTreeMap, BTreeSet};

use load::outcome::{ACCEPTED, ALREADY_BOUGHT, ORDERED};
use load::told::{RefusedBuyers, Told};
use load::verdict::Books;

use super::evidence::Evidence;
use super::sale_record::SaleRecord;

/// What a buyer has heard who was accepted and then nothing more: an order may come of it.
const UNDECIDED: &str = "undecided";

/// The books of what happened while the crowd was there.
pub(super) fn books(evidence: &Evidence<'_>) -> Option<Books> {
    let sale = evidence.sale;
    let after = &sale.after.as_ref()?.reading;
    let orders = sale.new_orders()?;
    let old_users = sale.before.as_ref().and_then(|before| before.users).unwrap_or(0);
    // Without a capacity nothing is unsold, and without users nobody has two.
    let initial_stock = sale.capacity.unwrap_or(orders);
    let promised = sale.promised();
    let lost = match evidence.not_in_list() {
        Some(missing) if !evidence.has_other_ids() => (missing.len() as i64).max(promised - orders),
        _ => promised - orders,
    };
    Some(Books {
        initial_stock,
        // As if nothing were cancelled.
        stock: match after.stock.filter(|_| sale.capacity.is_some()) {
            Some(stock) => stock - sale.cancelled(),
            None => initial_stock - orders,
        },
        orders,
        distinct_users: match after.users {
            Some(users) => orders.min(users - old_users + sale.cancelled()),
            None => orders,
        },
        orders_of_crowd: sale.orders_of_crowd()?,
        lost: lost.max(0),
        twice: None,
        objections: Vec::new(),
    })
}

/// What buyers were told of a voucher.
pub(super) fn told(sale: &SaleRecord, books: &Books) -> Told {
    let had_orders = sale.before.as_ref().is_some_and(|before| before.orders > 0);
    let mut told = Told::default();
    let mut of_buyers: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for answer in &sale.heard {
        let code = match answer.outcome.as_ref() {
            ACCEPTED => UNDECIDED,
            code => code,
        };
        *told.outcomes.entry(code.to_owned()).or_default() += 1;
        of_buyers.entry(answer.buyer).or_default().insert(code.to_owned());
    }
    for codes in of_buyers.into_values() {
        if codes.contains(ORDERED) || codes.contains(ALREADY_BOUGHT) && !had_orders {
            told.served += 1;
        } else if codes.contains(ALREADY_BOUGHT) {
            // The order may be one of those that were there before.
        } else {
            match told.refused_buyers.iter_mut().find(|group| group.codes == codes) {
                Some(group) => group.buyers += 1,
                None => told.refused_buyers.push(RefusedBuyers { codes, buyers: 1 }),
            }
        }
    }
    if had_orders {
        // A buyer who had an order before and was sold another one is no new user in the books.
        told.served = told.served.min(u64::try_from(books.distinct_users).unwrap_or(0));
    }
    told
}

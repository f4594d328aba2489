//! What the reader of the books hands to the judge.

/// What the books say of one sale, once nothing more is to come.
#[derive(Debug, Clone)]
pub struct Books {
    /// Vouchers as they were put on sale.
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
    /// Orders.
    pub orders: i64,
    /// Different users among them.
    pub distinct_users: i64,
    /// Orders of the crowd's buyers: all orders, where the crowd was alone.
    pub orders_of_crowd: i64,
    /// Orders acknowledged with a 201 that are not there.
    pub lost: i64,
    /// A user with several orders, and these, where the reader of the books looks for one.
    pub twice: Option<(i64, Vec<i64>)>,
    /// What else is wrong with the books, a sentence each.
    pub objections: Vec<String>,
}

impl Books {
    /// Vouchers without an order.
    pub(super) fn unsold(&self) -> i64 {
        (self.initial_stock - self.orders).max(0)
    }

    /// Those of them that can still be sold. The stock column may say more than there is.
    pub(super) fn left(&self) -> i64 {
        self.stock.clamp(0, self.unsold())
    }
}

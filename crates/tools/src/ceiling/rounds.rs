//! What is measured, and in which order.

use serde::{Serialize, Serializer};

use clap::ValueEnum;
use seckill::purchase::Strategy;

/// Connections of those who are refused, and of the handler they are compared with.
pub(super) const REFUSED_CONNECTIONS: [usize; 2] = [64, 256];
/// Connections of those who buy.
pub(super) const BUYING_CONNECTIONS: [usize; 3] = [1, 64, 256];
/// Where nothing else is said.
pub(super) const CONNECTIONS: usize = 256;
/// Of PostgreSQL's own client. What the strategies are compared with is measured by
/// [`REFERENCE_CLIENTS`].
pub(super) const HOT_ROW_CLIENTS: [u32; 4] = [1, 2, 8, 32];
/// Fewer would not keep the disk busy, more get into each other's way at the row.
pub(super) const REFERENCE_CLIENTS: u32 = 8;
/// Of PostgreSQL's own client, where each sends batches.
pub(super) const BATCH_CLIENTS: [u32; 3] = [1, 2, 4];
/// Acquires in flight on each connection of Redis's own client.
pub(super) const IN_FLIGHT: [u32; 2] = [1, 16];
/// Vouchers on sale at once, where it is not one.
pub(super) const VOUCHERS: usize = 64;
/// Processes that serve, where it is not one.
pub(super) const NODES: [usize; 2] = [2, 4];
/// Connections while the memory is looked at.
pub(super) const MEMORY_CONNECTIONS: usize = 1_000;

/// What is measured where it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionalPart {
    /// Several times what can be sold: what is still sold, and how soon it is over (of the default
    /// where no strategy is named)
    Overload,
    /// 64 vouchers on sale at once, against one
    Vouchers,
    /// Two and four nodes, against one
    Nodes,
    /// A node's memory while 1,000 connections buy
    Memory,
}

impl OptionalPart {
    pub(super) const ALL: [Self; 4] = [Self::Overload, Self::Vouchers, Self::Nodes, Self::Memory];
}

/// Why somebody is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    SoldOut,
    AlreadyBought,
    NotStarted,
    Ended,
}

impl Refused {
    /// The code in the answer.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::SoldOut => "sold_out",
            Self::AlreadyBought => "already_bought",
            Self::NotStarted => "sale_not_started",
            Self::Ended => "sale_ended",
        }
    }
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measurement {
    /// Answers of a handler that does nothing else.
    Bare { connections: usize },
    /// The lock's script, by Redis's own client.
    LockScript { in_flight: u32 },
    /// One statement an order, by PostgreSQL's own client.
    HotRow { clients: u32 },
    /// Many orders a transaction, by PostgreSQL's own client.
    Batches { clients: u32 },
    /// Confirmed orders of one voucher after another.
    Orders { strategy: Strategy, connections: usize },
    /// Refusals.
    Refusals { strategy: Strategy, refused: Refused, connections: usize },
    /// Confirmed orders with many vouchers on sale.
    ManyVouchers { strategy: Strategy },
    /// Confirmed orders through several nodes, each with as many buyers as one has alone.
    Nodes { strategy: Strategy, nodes: usize },
    /// A node's memory while many buy.
    Memory { strategy: Strategy },
    /// More than can be served.
    Overload { strategy: Strategy },
}

impl Measurement {
    /// Its name in the JSON.
    pub(super) fn id(self) -> String {
        match self {
            Self::Bare { connections } => format!("bare/{connections}"),
            Self::LockScript { in_flight } => format!("redis_lock_script/{in_flight}"),
            Self::HotRow { clients } => format!("postgresql_hot_row/{clients}"),
            Self::Batches { clients } => format!("postgresql_batches/{clients}"),
            Self::Orders { strategy, connections } => format!("{strategy}/orders/{connections}"),
            Self::Refusals { strategy, refused, connections } => {
                format!("{strategy}/{}/{connections}", refused.code())
            }
            Self::ManyVouchers { strategy } => format!("{strategy}/vouchers/{VOUCHERS}"),
            Self::Nodes { strategy, nodes } => format!("{strategy}/nodes/{nodes}"),
            Self::Memory { strategy } => format!("{strategy}/memory/{MEMORY_CONNECTIONS}"),
            Self::Overload { strategy } => format!("{strategy}/overload"),
        }
    }

    /// What its figure counts.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Bare { .. } | Self::Refusals { .. } => "answers/s",
            Self::LockScript { .. } => "calls/s",
            Self::Memory { .. } => "MB",
            _ => "orders/s",
        }
    }

    /// In words.
    pub(super) fn label(self) -> String {
        match self {
            Self::Bare { connections } => format!("bare handler, {connections} connections"),
            Self::LockScript { in_flight: 1 } => "Redis, the lock's script".to_owned(),
            Self::LockScript { in_flight } => {
                format!("Redis, the lock's script, {in_flight} in flight a connection")
            }
            Self::HotRow { clients } => {
                format!("PostgreSQL, one hot row, {}", counted(clients as usize, "client"))
            }
            Self::Batches { clients } => {
                format!("PostgreSQL, batches, {}", counted(clients as usize, "client"))
            }
            Self::Orders { strategy, connections } => {
                format!("{strategy}, {}", counted(connections, "connection"))
            }
            Self::Refusals { strategy, refused, connections } => {
                format!("{strategy}, {}, {connections} connections", refused.code())
            }
            Self::ManyVouchers { strategy } => format!("{strategy}, {VOUCHERS} vouchers"),
            Self::Nodes { strategy, nodes } => {
                format!("{strategy}, {nodes} nodes, 256 connections each")
            }
            Self::Memory { strategy } => {
                format!("{strategy}, memory with 1,000 connections")
            }
            Self::Overload { strategy } => format!("{strategy}, overload"),
        }
    }
}

impl Serialize for Measurement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.id())
    }
}

/// A number of things, in words: `1 round`, `5 rounds`.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// All that one round measures. What is compared stands close together, and every other round
/// goes back the way: what one measurement does to the next (a warm cache, a hot processor, a
/// busy disk) then does not always hit the same ones. What several others are compared with is
/// measured again beside them, for a machine that others use, too, changes within seconds.
pub(super) fn round(
    number: usize,
    strategies: &[Strategy],
    overloaded: &[Strategy],
    parts: &[OptionalPart],
) -> Vec<Measurement> {
    let mut plan: Vec<Measurement> = Vec::new();
    plan.extend(IN_FLIGHT.map(|in_flight| Measurement::LockScript { in_flight }));
    plan.extend(HOT_ROW_CLIENTS.map(|clients| Measurement::HotRow { clients }));
    for connections in BUYING_CONNECTIONS {
        if connections == CONNECTIONS {
            plan.push(Measurement::HotRow { clients: REFERENCE_CLIENTS });
        }
        plan.extend(
            strategies
                .iter()
                .map(|strategy| Measurement::Orders { strategy: *strategy, connections }),
        );
    }
    plan.extend(BATCH_CLIENTS.map(|clients| Measurement::Batches { clients }));
    for strategy in strategies.iter().copied() {
        let one = Measurement::Orders { strategy, connections: CONNECTIONS };
        if parts.contains(&OptionalPart::Vouchers) {
            plan.extend([Measurement::ManyVouchers { strategy }, one]);
        }
        if parts.contains(&OptionalPart::Nodes) {
            let [some, more] = NODES.map(|nodes| Measurement::Nodes { strategy, nodes });
            plan.extend([some, one, more]);
        }
        if parts.contains(&OptionalPart::Memory) {
            plan.push(Measurement::Memory { strategy });
        }
    }
    for connections in REFUSED_CONNECTIONS {
        plan.push(Measurement::Bare { connections });
        plan.extend(strategies.iter().map(|strategy| Measurement::Refusals {
            strategy: *strategy,
            refused: Refused::SoldOut,
            connections,
        }));
    }
    for strategy in strategies.iter().copied() {
        plan.extend(
            [Refused::AlreadyBought, Refused::NotStarted, Refused::Ended].map(|refused| {
                Measurement::Refusals { strategy, refused, connections: CONNECTIONS }
            }),
        );
    }
    if number.is_multiple_of(2) {
        plan.reverse();
    }
    // Last in each round: what it leaves behind takes longest to settle.
    if parts.contains(&OptionalPart::Overload) {
        plan.extend(
            overloaded.iter().map(|strategy| Measurement::Overload { strategy: *strategy }),
        );
    }
    plan
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_other_round_goes_back_the_way() {
        let of = |number| round(number, &Strategy::ALL, &[], &[]);
        let mut back = of(2);
        back.reverse();
        assert_eq!(of(1), back);
        assert_eq!(of(1), of(3));
        assert_eq!(of(1).len(), 12 + 3 * 8);
    }

    #[test]
    fn each_measurement_has_a_name_of_its_own() {
        let mut all = round(1, &Strategy::ALL, &Strategy::ALL, &OptionalPart::ALL);
        all.sort_by_key(|measurement| measurement.id());
        all.dedup();
        let ids: HashSet<String> = all.iter().map(|measurement| measurement.id()).collect();
        assert_eq!(ids.len(), all.len());
    }

    #[test]
    fn many_vouchers_and_nodes_are_measured_right_beside_what_they_are_compared_with() {
        let all = round(1, &Strategy::ALL, &[], &OptionalPart::ALL);
        let is_one = |of, other: &Measurement| {
            matches!(other, Measurement::Orders { strategy, connections: CONNECTIONS }
                if *strategy == of)
        };
        let mut compared = 0;
        for (place, measurement) in all.iter().enumerate() {
            if let Measurement::ManyVouchers { strategy } | Measurement::Nodes { strategy, .. } =
                *measurement
            {
                let beside = [&all[place - 1], &all[place + 1]];
                assert!(beside.into_iter().any(|other| is_one(strategy, other)), "{measurement:?}");
                compared += 1;
            }
        }
        assert_eq!(compared, 3 * 3);
    }
}

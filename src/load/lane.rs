//! Which shot goes over which connection.
//!
//! A *lane* is one connection and the shots it sends, one after another. Lanes are
//! dealt so that the attempts of one buyer are really concurrent, because that is
//! where a sale sells twice: they never share a lane, and at one node they stand at the
//! same depth of their lanes, or one deeper. Between nodes the depths drift apart by as
//! much as one node has had more attempts of the buyers so far than another.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::LoadError;
use super::rush::Shot;

/// The shots of one connection, in the order in which it sends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    /// Index of the node it is connected to.
    pub(super) node: usize,
    /// Indices of its shots.
    pub(super) shots: Vec<usize>,
}

/// Deals `shots` to at most `max_connections` lanes over `nodes` nodes.
///
/// The buyers are shuffled by `seed`, each with all their attempts; then every shot is
/// dealt to the lanes of its node in turn. Lanes come in the order of their first
/// shots, so the first volley leaves in the shuffled order too. The same arguments
/// give the same lanes.
pub(super) fn deal(
    shots: &[Shot],
    nodes: usize,
    max_connections: usize,
    seed: u64,
) -> Result<Vec<Lane>, LoadError> {
    let widths = widths(shots, nodes, max_connections)?;
    let mut lanes: Vec<Lane> = Vec::with_capacity(widths.iter().sum());
    let mut lanes_of_node: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut dealt = vec![0_usize; nodes];
    for index in shuffled(shots, seed) {
        let node = shots[index].node;
        let turn = dealt[node] % widths[node];
        dealt[node] += 1;
        if turn == lanes_of_node[node].len() {
            lanes_of_node[node].push(lanes.len());
            lanes.push(Lane { node, shots: Vec::new() });
        }
        lanes[lanes_of_node[node][turn]].shots.push(index);
    }
    Ok(lanes)
}

/// The shots' indices: buyers in an order drawn from `seed`, the attempts of a buyer
/// together and in the plan's order.
fn shuffled(shots: &[Shot], seed: u64) -> Vec<usize> {
    let mut buyers: Vec<u64> = shots.iter().map(|shot| shot.buyer).collect();
    buyers.sort_unstable();
    buyers.dedup();
    buyers.shuffle(&mut StdRng::seed_from_u64(seed));
    let rank: HashMap<u64, usize> =
        buyers.into_iter().enumerate().map(|(rank, buyer)| (buyer, rank)).collect();
    let mut order: Vec<usize> = (0..shots.len()).collect();
    order.sort_by_key(|&index| rank[&shots[index].buyer]);
    order
}

/// How many connections each node gets: as many as one buyer has attempts there, or
/// they would wait for each other; what is left goes, one by one, to the node with the
/// most shots per connection.
fn widths(shots: &[Shot], nodes: usize, max_connections: usize) -> Result<Vec<usize>, LoadError> {
    let mut demand = vec![0_usize; nodes];
    let mut attempts: HashMap<(usize, u64), usize> = HashMap::new();
    for (index, shot) in shots.iter().enumerate() {
        let node = shot.node;
        let of_node = demand.get_mut(node);
        *of_node.ok_or(LoadError::NoSuchNode { shot: index, node, nodes })? += 1;
        *attempts.entry((node, shot.buyer)).or_default() += 1;
    }
    let mut widths = vec![0_usize; nodes];
    for ((node, _), count) in attempts {
        widths[node] = widths[node].max(count);
    }
    let wanted: usize = widths.iter().sum();
    if wanted > max_connections {
        return Err(LoadError::TooFewConnections { wanted, max: max_connections });
    }
    for _ in wanted..max_connections.min(shots.len()) {
        let busiest = (0..nodes)
            .filter(|&node| widths[node] < demand[node])
            // demand / width compared without division; the lower index wins a tie.
            .max_by(|&a, &b| (demand[a] * widths[b]).cmp(&(demand[b] * widths[a])).then(b.cmp(&a)));
        let Some(busiest) = busiest else { break };
        widths[busiest] += 1;
    }
    Ok(widths)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shots(buyers: usize, attempts: usize, nodes: usize) -> Vec<Shot> {
        let shot = |buyer: usize, attempt: usize| Shot {
            node: (buyer + attempt) % nodes,
            path: "/".into(),
            token: "t".into(),
            buyer: buyer as u64,
        };
        (0..buyers).flat_map(|buyer| (0..attempts).map(move |k| shot(buyer, k))).collect()
    }

    /// Depth of every shot in its lane, and the lane.
    fn places(lanes: &[Lane]) -> HashMap<usize, (usize, usize)> {
        let mut places = HashMap::new();
        for (number, lane) in lanes.iter().enumerate() {
            for (depth, &shot) in lane.shots.iter().enumerate() {
                assert!(places.insert(shot, (number, depth)).is_none(), "shot {shot} dealt twice");
            }
        }
        places
    }

    #[test]
    fn every_shot_is_dealt_once_to_a_lane_of_its_node() {
        let shots = shots(100, 5, 3);
        for max_connections in [6, 7, 64, 499, 500, 10_000] {
            let lanes = deal(&shots, 3, max_connections, 1).unwrap();
            assert_eq!(lanes.len(), max_connections.min(500));
            assert_eq!(places(&lanes).len(), 500);
            for lane in &lanes {
                assert!(lane.shots.iter().all(|&shot| shots[shot].node == lane.node));
            }
            let depths = lanes.iter().map(|lane| lane.shots.len());
            let (least, most) = (depths.clone().min().unwrap(), depths.max().unwrap());
            assert!(most <= 500_usize.div_ceil(lanes.len()) * 2, "{least}..{most}");
        }
    }

    #[test]
    fn attempts_of_a_buyer_are_on_distinct_lanes_at_neighbouring_depths_of_a_node() {
        let shots = shots(200, 5, 2);
        let places = places(&deal(&shots, 2, 20, 7).unwrap());
        for buyer in 0..200 {
            let of_buyer = buyer * 5..buyer * 5 + 5;
            let distinct: HashSet<_> = of_buyer.clone().map(|shot| places[&shot].0).collect();
            assert_eq!(distinct.len(), 5);
            for node in 0..2 {
                let at_node = of_buyer.clone().filter(|&shot| shots[shot].node == node);
                let depths = at_node.map(|shot| places[&shot].1);
                assert!(depths.clone().max().unwrap() - depths.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        let shots = shots(50, 3, 2);
        let dealt = |seed| deal(&shots, 2, 10, seed).unwrap();
        assert_eq!(dealt(42), dealt(42));
        assert_ne!(dealt(42), dealt(43));
    }

    #[test]
    fn too_few_connections_for_one_buyers_attempts_are_refused() {
        let refusal = deal(&shots(10, 5, 2), 2, 5, 1).unwrap_err();
        assert!(matches!(refusal, LoadError::TooFewConnections { wanted: 6, max: 5 }), "{refusal}");
    }

    #[test]
    fn a_shot_at_an_unknown_node_is_refused() {
        let refusal = deal(&shots(10, 2, 2), 1, 5, 1).unwrap_err();
        assert!(matches!(refusal, LoadError::NoSuchNode { shot: 1, node: 1, nodes: 1 }));
    }

    #[test]
    fn connections_follow_the_demand_of_the_nodes() {
        let mut shots = shots(90, 1, 1);
        shots.extend((90..100).map(|buyer| Shot {
            node: 2,
            path: "/".into(),
            token: "t".into(),
            buyer,
        }));
        assert_eq!(widths(&shots, 3, 10).unwrap(), [9, 0, 1]);
        assert_eq!(widths(&shots, 3, 1_000).unwrap(), [90, 0, 10]);
    }
}

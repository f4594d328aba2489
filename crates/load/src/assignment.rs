//! The assignment of requests to connections.
//!
//! A connection sends its requests one after another. The attempts of one buyer must be really
//! concurrent, because that is where a sale sells twice. So they never share a connection, and at one
//! node they stand at the same place of their connections, or one later. Between nodes the places drift
//! apart by the number of attempts that one node has had more than another.

use std::collections::HashMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::LoadError;
use super::template::{Taken, Template, Values};

/// One attempt: the request of the plan's target, by one buyer.
#[derive(Clone)]
pub struct PlannedRequest {
    /// Index into the plan's nodes.
    pub node: usize,
    /// Path, with the query if there is one: `/api/vouchers/1/orders`; behind the node's prefix.
    pub path: Template,
    /// In place of `{token}`.
    pub token: Arc<str>,
    /// In place of `{user}`.
    pub user: Arc<str>,
    /// The buyer. The attempts of one buyer are concurrent.
    pub buyer: u64,
    /// In place of `{order}`, where one is asked after.
    pub order: Option<Arc<str>>,
}

impl PlannedRequest {
    /// What is known before the first answer.
    pub(super) fn taken(&self) -> Taken {
        let order = self.order.as_ref().map(|order| ("order".into(), order.to_string()));
        order.into_iter().collect()
    }

    /// What its placeholders stand for.
    pub(super) fn values<'a>(&'a self, taken: &'a Taken) -> Values<'a> {
        Values { user: &self.user, token: &self.token, taken }
    }
}

/// The requests of one connection, in the order in which it sends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Index of the node it is connected to.
    pub(super) node: usize,
    /// Indices of its requests.
    pub(super) requests: Vec<usize>,
}

/// Deals `requests` to at most `max_connections` assignments over `nodes` nodes. The same arguments give
/// the same assignments.
///
/// The buyers are shuffled by `seed`, each with all attempts. Then the assignments of a node take its
/// requests in turn. They come in the order of their first requests, so that the first volley leaves in
/// the shuffled order, too.
pub(super) fn assign(
    requests: &[PlannedRequest],
    nodes: usize,
    max_connections: usize,
    seed: u64,
) -> Result<Vec<Assignment>, LoadError> {
    let widths = widths(requests, nodes, max_connections)?;
    let mut assignments: Vec<Assignment> = Vec::with_capacity(widths.iter().sum());
    let mut assignments_of_node: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut dealt = vec![0_usize; nodes];
    for index in shuffled(requests, seed) {
        let node = requests[index].node;
        let turn = dealt[node] % widths[node];
        dealt[node] += 1;
        if turn == assignments_of_node[node].len() {
            assignments_of_node[node].push(assignments.len());
            assignments.push(Assignment { node, requests: Vec::new() });
        }
        assignments[assignments_of_node[node][turn]].requests.push(index);
    }
    Ok(assignments)
}

/// The requests' indices, in an order of the buyers that is drawn from `seed`. The attempts of a buyer
/// stay together, in the plan's order.
fn shuffled(requests: &[PlannedRequest], seed: u64) -> Vec<usize> {
    let mut buyers: Vec<u64> = requests.iter().map(|request| request.buyer).collect();
    buyers.sort_unstable();
    buyers.dedup();
    buyers.shuffle(&mut StdRng::seed_from_u64(seed));
    let rank: HashMap<u64, usize> =
        buyers.into_iter().enumerate().map(|(rank, buyer)| (buyer, rank)).collect();
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&index| rank[&requests[index].buyer]);
    order
}

/// How many connections each node gets. It gets as many as one buyer has attempts there, because they
/// would wait for each other otherwise. Each further connection goes to the node with the most requests
/// per connection.
fn widths(
    requests: &[PlannedRequest],
    nodes: usize,
    max_connections: usize,
) -> Result<Vec<usize>, LoadError> {
    let mut demand = vec![0_usize; nodes];
    let mut attempts: HashMap<(usize, u64), usize> = HashMap::new();
    for (index, request) in requests.iter().enumerate() {
        let node = request.node;
        let of_node = demand.get_mut(node);
        *of_node.ok_or(LoadError::NoSuchNode { request: index, node, nodes })? += 1;
        *attempts.entry((node, request.buyer)).or_default() += 1;
    }
    let mut widths = vec![0_usize; nodes];
    for ((node, _), count) in attempts {
        widths[node] = widths[node].max(count);
    }
    let wanted: usize = widths.iter().sum();
    if wanted > max_connections {
        return Err(LoadError::TooFewConnections { wanted, max: max_connections });
    }
    for _ in wanted..max_connections.min(requests.len()) {
        let busiest = (0..nodes)
            .filter(|&node| widths[node] < demand[node])
            // This compares demand / width without a division. The lower index wins a tie.
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

    fn request(node: usize, buyer: u64) -> PlannedRequest {
        let (path, token, user) = ("/".into(), "t".into(), "u".into());
        PlannedRequest { node, path, token, user, buyer, order: None }
    }

    fn requests(buyers: usize, attempts: usize, nodes: usize) -> Vec<PlannedRequest> {
        let of = |buyer: usize, attempt: usize| request((buyer + attempt) % nodes, buyer as u64);
        (0..buyers).flat_map(|buyer| (0..attempts).map(move |k| of(buyer, k))).collect()
    }

    /// Depth of every request in its assignment, and the assignment.
    fn places(assignments: &[Assignment]) -> HashMap<usize, (usize, usize)> {
        let mut places = HashMap::new();
        for (number, assignment) in assignments.iter().enumerate() {
            for (depth, &request) in assignment.requests.iter().enumerate() {
                assert!(
                    places.insert(request, (number, depth)).is_none(),
                    "request {request} dealt twice"
                );
            }
        }
        places
    }

    #[test]
    fn every_request_is_assigned_once_to_a_connection_of_its_node() {
        let requests = requests(100, 5, 3);
        for max_connections in [6, 7, 64, 499, 500, 10_000] {
            let assignments = assign(&requests, 3, max_connections, 1).unwrap();
            assert_eq!(assignments.len(), max_connections.min(500));
            assert_eq!(places(&assignments).len(), 500);
            for Assignment { node, requests: dealt } in &assignments {
                assert!(dealt.iter().all(|&request| requests[request].node == *node));
            }
            let depths = assignments.iter().map(|assignment| assignment.requests.len());
            let (least, most) = (depths.clone().min().unwrap(), depths.max().unwrap());
            assert!(most <= 500_usize.div_ceil(assignments.len()) * 2, "{least}..{most}");
        }
    }

    #[test]
    fn attempts_of_a_buyer_are_on_distinct_connections_at_neighbouring_depths_of_a_node() {
        let requests = requests(200, 5, 2);
        let places = places(&assign(&requests, 2, 20, 7).unwrap());
        for buyer in 0..200 {
            let of_buyer = buyer * 5..buyer * 5 + 5;
            let distinct: HashSet<_> = of_buyer.clone().map(|request| places[&request].0).collect();
            assert_eq!(distinct.len(), 5);
            for node in 0..2 {
                let at_node = of_buyer.clone().filter(|&request| requests[request].node == node);
                let depths = at_node.map(|request| places[&request].1);
                assert!(depths.clone().max().unwrap() - depths.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        let requests = requests(50, 3, 2);
        let dealt = |seed| assign(&requests, 2, 10, seed).unwrap();
        assert_eq!(dealt(42), dealt(42));
        assert_ne!(dealt(42), dealt(43));
    }

    #[test]
    fn too_few_connections_for_one_buyers_attempts_and_an_unknown_node_are_refused() {
        let refusal = assign(&requests(10, 5, 2), 2, 5, 1).unwrap_err();
        assert!(matches!(refusal, LoadError::TooFewConnections { wanted: 6, max: 5 }), "{refusal}");
        let refusal = assign(&requests(10, 2, 2), 1, 5, 1).unwrap_err();
        assert!(matches!(refusal, LoadError::NoSuchNode { request: 1, node: 1, nodes: 1 }));
    }

    #[test]
    fn connections_follow_the_demand_of_the_nodes() {
        let mut requests = requests(90, 1, 1);
        requests.extend((90..100).map(|buyer| request(2, buyer)));
        assert_eq!(widths(&requests, 3, 10).unwrap(), [9, 0, 1]);
        assert_eq!(widths(&requests, 3, 1_000).unwrap(), [90, 0, 10]);
    }
}

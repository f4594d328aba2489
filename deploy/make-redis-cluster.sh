#!/usr/bin/env bash
# Makes a Redis Cluster of the nodes named (HOST:PORT, six of them: three masters with a replica each),
# unless they are one already, and waits until each of them says that all slots are served.
set -euo pipefail

says() { # says HOST:PORT LINE: whether the node's `cluster info` has this line
    [ "$(redis-cli -h "${1%:*}" -p "${1##*:}" cluster info | tr -d '\r' | grep -cx "$2")" = 1 ]
}

are_new() { # whether no node knows another one or has a slot
    local node
    for node in "$@"; do
        says "$node" cluster_known_nodes:1 && says "$node" cluster_slots_assigned:0 || return 1
    done
}

# A cluster that was made before may need a moment after a restart; half of one never becomes whole.
if are_new "$@"; then
    redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes ||
        echo "redis-cli did not finish making the cluster" >&2
fi
for node in "$@"; do
    for _ in {1..120}; do
        if says "$node" cluster_state:ok; then continue 2; fi
        sleep 0.5
    done
    echo "$node does not see a whole cluster. If an earlier run was interrupted, remove the volumes" \
        "redis-1 to redis-6 and start again: this deletes what Redis holds." >&2
    exit 1
done

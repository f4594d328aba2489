#!/usr/bin/env bash
# Makes a Redis Cluster of the nodes named (HOST:PORT, six of them: three masters with a replica each),
# unless they are one already, and waits until each of them says that all slots are served.
set -euo pipefail

ask() { # ask HOST:PORT COMMAND...
    local node=$1
    shift
    redis-cli -h "${node%:*}" -p "${node##*:}" "$@" | tr -d '\r'
}

if ask "$1" cluster info | grep -qx cluster_known_nodes:1; then
    redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes
fi
for node in "$@"; do
    for _ in {1..120}; do
        if ask "$node" cluster info | grep -qx cluster_state:ok; then continue 2; fi
        sleep 0.5
    done
    echo "$node does not see a whole cluster" >&2
    exit 1
done

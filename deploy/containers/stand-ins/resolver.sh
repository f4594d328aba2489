#!/bin/sh
# Docker's containers ask 127.0.0.11; podman's have its resolver at another address. This forwards.
set -eu
server=$(sed -n 's/^nameserver //p' /etc/resolv.conf | head -n 1)
dnsmasq --no-resolv --server="$server" --listen-address=127.0.0.11 --bind-interfaces --cache-size=0 \
    --user=root --pid-file=/run/dnsmasq.pid
exec "$@"

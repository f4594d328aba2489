#!/bin/sh
# As the official image: not as root, data in /data, reachable from other containers.
set -eu
if [ "$1" = redis-server ]; then
    chown -R redis /data
    set -- "$@" --protected-mode no --bind 0.0.0.0 --dir /data
    exec setpriv --reuid=redis --regid=redis --clear-groups "$@"
fi
exec "$@"

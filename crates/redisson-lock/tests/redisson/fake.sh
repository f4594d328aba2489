#!/bin/sh
# Takes the arguments of `seckill lock` and locks nothing: by it the suite shows that it can fail.
set -eu
if [ "$2" != run ]; then
    echo '{"locked": false, "holds": 0}'
    exit
fi
while [ "$1" != -- ]; do shift; done
shift
SECKILL_LOCK_FENCE=1 exec "$@"

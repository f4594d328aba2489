#!/bin/sh
# Runs the lock beside the real Redisson, once for each version: one line a check, exit 1 when one
# fails.
#
#   tests/redisson/run.sh PROGRAM BUILD [--fake] [GROUP...]
#
# PROGRAM is the `seckill` to test, BUILD a directory for what is built. --fake puts a program in its
# place that locks nothing: then checks have to fail, and most do. A GROUP is one of exclusion,
# waiting, holding, loss, fencing, names, stress, fair, cluster; none: all. The group pace checks nothing,
# and prints Redisson's line of `make bench-lock`.
# REDISSON_VERSIONS='4.7.0 3.27.2' chooses the versions.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
program=$(readlink -f "$1")
mkdir -p "$2"
build=$(cd "$2" && pwd)
shift 2
if [ "${1-}" = --fake ]; then
    program=$here/fake.sh
    shift
fi
# Lock names are arguments of processes: in another locale Java would write them with question marks.
export LC_ALL=C.UTF-8

# In the background, so that a signal is passed on: Java ends what it has started, and then itself.
java=''
stop() {
    trap '' INT TERM HUP
    [ -z "$java" ] || kill "$java" 2>/dev/null || true
    [ -z "$java" ] || wait "$java" || true
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

status=0
for version in ${REDISSON_VERSIONS:-4.7.0 3.27.2}; do
    said=$(mvn --batch-mode --quiet --file "$here/pom.xml" "-Dredisson.version=$version" \
        "-Dbuild.root=$build" compile dependency:build-classpath </dev/null 2>&1) || {
        printf '%s\n' "$said" >&2
        exit 1
    }
    classes=$build/$version/classes:$(cat "$build/$version/classpath")
    quick=-XX:TieredStopAtLevel=1 # to be started soon; what is measured gets the whole compiler
    [ "${1-}" != pace ] || quick=-XX:TieredStopAtLevel=4
    java -Xmx512m -XX:+UseSerialGC "$quick" -Djava.util.logging.config.file=/dev/null \
        -cp "$classes" seckill.Suite "$version" "$program" "$@" </dev/null &
    java=$!
    wait "$java" || status=$?
    java=''
done
exit $status

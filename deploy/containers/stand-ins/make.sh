#!/usr/bin/env bash
# Makes the stand-ins, where they are not there yet: make.sh WORK_DIRECTORY OPT_LEVEL IMAGE...
# Each is built once; `make clean` removes them. Needs root, debootstrap and a Debian mirror.
set -euo pipefail
work=$1 opt_level=$2
shift 2
here=$(dirname "${BASH_SOURCE[0]}")

if ! podman image exists localhost/stand-in/debian; then
    root=$work/bookworm
    rm -rf "$root"
    echo 'stand-ins: a minimal Debian 12'
    debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 5 "$work/debootstrap.log" >&2; exit 1; }
    for suite in bookworm bookworm-updates; do echo "deb http://deb.debian.org/debian $suite main"; done >"$root/etc/apt/sources.list"
    # The Citus package wants the newest PostgreSQL 15.
    echo 'deb http://deb.debian.org/debian-security bookworm-security main' >>"$root/etc/apt/sources.list"
    tar -C "$root" -c . | podman import --quiet - localhost/stand-in/debian
    rm -rf "$root"
fi

# What was built before is in podman's cache of layers.
for image in "$@"; do
    # As Docker completes a name; podman would call it localhost's.
    case $image in
    */*/*) ;;
    */*) image=docker.io/$image ;;
    *) image=docker.io/library/$image ;;
    esac
    name=${image##*/}
    target=${name%%:*}
    if [ "$target" = debian ]; then
        podman tag localhost/stand-in/debian "$image"
        continue
    fi
    options=()
    # The Debian package of Citus, which no distribution has.
    if [ "$target" = citus ]; then
        [ -n "$CITUS_PACKAGE" ] || continue
        options+=(--volume "$CITUS_PACKAGE:/citus.deb:ro")
    fi
    podman build --quiet --network host --layers=true --target "$target" --tag "$image" "${options[@]}" \
        --build-arg OPT_LEVEL="$opt_level" \
        --volume "$(rustc --print sysroot):/toolchain:ro" \
        --volume /etc/ssl/certs/ca-certificates.crt:/certificates.crt:ro "$here" >"$work/stand-in.log" 2>&1 ||
        { tail -n 20 "$work/stand-in.log" >&2; exit 1; }
done

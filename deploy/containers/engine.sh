# shellcheck shell=bash
# Sourced by run.sh: what runs the containers. Where a Docker daemon answers, that and the real images.
# Else podman on Linux, as root, driven by the real Docker Compose, with a storage and networks of its own
# below $home: nothing of the machine's own containers is seen or touched. What Docker does and podman
# without systemd does not (health checks, telling the neighbours of a new address) is done here.

engine=''
service='' doctor=''
runtime=(docker)

docker_answers() { docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; }

why_not() { # why_not: prints why no containers can be run here, or nothing
    ! docker_answers || return 0
    if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then
        echo 'there is no Docker daemon, and podman in its place needs Linux and root'
    elif ! unshare --mount --pid --net --fork true 2>/dev/null; then
        echo 'there is no Docker daemon, and this machine lets nobody make namespaces'
    fi
}

start_engine() {
    if docker_answers; then
        engine=docker compose_program=(docker compose)
        return
    fi
    scripts/setup.sh deploy-check containers
    compose_program=("$(echo "${CARGO_TARGET_DIR:-target}"/deploy-check/compose/lib/python*/site-packages/compose/docker-compose)")
    engine=podman runtime=(podman)
    state=/run/seckill-containers # short, because a socket's name has to be
    mkdir -p "$state" "$home/networks" "$home/docker" "$home/tmp"
    cat >"$home/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$home/networks"
EOF
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$home/storage" "$state/run" >"$home/storage.conf"
    # An own file of the machine's registries would rename images.
    echo 'unqualified-search-registries = ["docker.io"]' >"$home/registries.conf"
    echo '{}' >"$home/docker/config.json"
    export CONTAINERS_CONF=$home/containers.conf CONTAINERS_STORAGE_CONF=$home/storage.conf \
        CONTAINERS_REGISTRIES_CONF=$home/registries.conf DOCKER_CONFIG=$home/docker \
        DOCKER_HOST=unix://$state/podman.sock
    # Docker's format, because the other one has no HEALTHCHECK.
    export DOCKER_BUILDKIT=0 BUILDAH_FORMAT=docker BUILDAH_LAYERS=false
    remove_containers # what a run that was killed left
    # There the caches of a build are kept.
    TMPDIR=$home/tmp podman system service --time=0 "$DOCKER_HOST" >"$home/service.log" 2>&1 9>&- &
    service=$!
    within 20 'podman answers' test -S "$state/podman.sock"
    check_health 9>&- &
    doctor=$!
}

# With systemd podman makes a timer of each health check.
check_health() {
    local id
    while true; do
        [ -d /run/systemd/system ] || for id in $(podman ps --quiet 2>/dev/null); do
            timeout 20 podman healthcheck run "$id" >/dev/null 2>&1 || true
        done
        # Also what podman itself has started again.
        forget_addresses
        sleep 2
    done
}

# A container that was started anew has another hardware address at its old one. Docker tells the others;
# podman 4 does not, and they would not find it for up to 40 s.
forget_addresses() {
    [ "$engine" = podman ] || return 0
    local pid
    for pid in $(podman ps --quiet 2>/dev/null | xargs --no-run-if-empty podman inspect --format '{{.State.Pid}}' 2>/dev/null); do
        nsenter --target "$pid" --net ip neigh flush all >/dev/null 2>&1 || true
    done
}

remove_containers() {
    [ "$engine" = podman ] || return 0
    podman pod rm --all --force >/dev/null 2>&1 || true
    podman rm --all --force --volumes --time 2 >/dev/null 2>&1 || true
    # What a build that was broken off worked in.
    podman ps --all --external --quiet | xargs --no-run-if-empty podman rm --force >/dev/null 2>&1 || true
    podman volume rm --all --force >/dev/null 2>&1 || true
    podman network prune --force >/dev/null 2>&1 || true
    # The monitors of health checks whose containers went away; their arguments name our storage.
    local pid
    for pid in $(pgrep --full "conmon .*$home/storage"); do
        kill "$pid" 2>/dev/null || true
    done
}

stop_engine() {
    [ -z "$doctor" ] || kill "$doctor" 2>/dev/null || true
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    wait 2>/dev/null || true
    remove_containers
    [ "$engine" = podman ] || return 0
    # podman mounts it on itself, also by a command that is just ending, and nobody could remove it.
    local try
    for try in 1 2 3 4 5; do
        umount "$home/storage/overlay" 2>/dev/null || true
        [ "$try" = 5 ] || sleep 1
    done
}

# Whether a registry gives images; else stand-ins are made.
reaches_a_registry() { timeout 20 "${runtime[@]}" pull --quiet docker.io/library/debian:bookworm-slim >/dev/null 2>&1; }

# shellcheck shell=bash
# Sourced by run.sh: the manifests of deploy/kubernetes, as pods of podman, beside a PostgreSQL and a Redis.

network=seckill-check-pods

python_with_yaml() { "${CARGO_TARGET_DIR:-target}/deploy-check/kubernetes-validate/bin/python" "$here/pods.py" "$@"; }
play() { # play NAME MANIFEST
    python_with_yaml pod "$1" "$2" >"$home/$1.yaml"
    quietly podman kube play --network "$network" --configmap "$home/settings.yaml" "$home/$1.yaml"
}
address_of() { podman inspect --format "{{(index .NetworkSettings.Networks \"$network\").IPAddress}}" "$(podman pod inspect --format '{{.InfraContainerID}}' "$1")"; }
of_container() { podman inspect --format "$2" "$1"; }
has_ended() { [ "$(of_container "$1" '{{.State.Status}}')" = exited ]; }
status_of() { curl --silent --max-time 2 --output /dev/null --write-out '%{http_code}' "$1"; }
is_ready() { [ "$(status_of "http://$1:8080/readyz")" = 200 ]; }
is_draining() { [ "$(status_of "http://$1:8080/readyz")" = 503 ]; }

try_kubernetes() {
    if [ "$engine" != podman ]; then
        say 'the manifests are played by podman alone: left out.'
        return
    fi
    local password
    password=$(hex 16)
    quietly podman network create "$network"
    quietly podman run --detach --name database --network "$network" --env POSTGRES_DB=seckill \
        --env POSTGRES_PASSWORD="$password" --env OWNER_PASSWORD="$password" --env SERVER_PASSWORD="$password" \
        --volume "$PWD/deploy/postgres/make-roles.sh:/docker-entrypoint-initdb.d/100-make-roles.sh:ro" docker.io/library/postgres:17-bookworm
    quietly podman run --detach --name redis --network "$network" docker.io/library/redis:7.4-bookworm \
        redis-server --appendonly yes --maxmemory-policy noeviction
    python_with_yaml settings >"$home/settings.yaml"
    podman secret rm seckill >/dev/null 2>&1 || true
    python_with_yaml secret "postgres://seckill:$password@database/seckill" \
        "postgres://seckill_server:$password@database/seckill" redis://redis:6379 "$SECKILL_SECRET" |
        podman secret create seckill - >/dev/null
    within 30 'PostgreSQL' podman exec database pg_isready --quiet --host=127.0.0.1 --username=seckill

    play migration deploy/kubernetes/migration/job.yaml
    within 60 'the migration ends' has_ended migration-migrate
    [ "$(of_container migration-migrate '{{.State.ExitCode}}')" = 0 ] || die 'the migration failed'
    podman exec --interactive database psql --quiet --set=ON_ERROR_STOP=1 --username=seckill seckill <deploy/postgres/roles.sql
    done_with 'the job migrates'

    play server-1 deploy/kubernetes/deployment.yaml
    play server-2 deploy/kubernetes/deployment.yaml
    local first_at second_at path
    first_at=$(address_of server-1) second_at=$(address_of server-2)
    within 30 'a server is ready' is_ready "$first_at"
    within 30 'the other server is ready' is_ready "$second_at"
    for path in $(python_with_yaml probes deploy/kubernetes/deployment.yaml); do
        [ "$(status_of "http://$first_at:8080$path")" = 200 ] || die "the probe $path fails"
    done
    if podman exec server-1-seckill bash -c 'echo >/file' 2>/dev/null; then die 'the root file system can be written'; fi
    [ "$(podman exec server-1-seckill bash -c 'sed -n "s/^CapEff:\t*//p" /proc/self/status')" = 0000000000000000 ] ||
        die 'a server has capabilities'
    [ "$(podman exec server-1-seckill bash -c 'echo $UID')" = 10001 ] || die 'a server is not user 10001'
    done_with 'two servers: probes, no capabilities, nothing to write on'

    # Told to end: not ready any more, and it sells on; then status 0, before it would be killed.
    in_server=(podman exec server-2-seckill) in_database=(podman exec database)
    sale_at "$first_at:8080" 100 80 6
    sleep 1
    quietly podman kill --signal TERM server-1-seckill
    within 5 'a server that ends is not ready' is_draining "$first_at"
    is_settled
    within 40 'it ends' has_ended server-1-seckill
    [ "$(of_container server-1-seckill '{{.State.ExitCode}}')" = 0 ] || die 'a server that was told to end failed'
    done_with 'one is told to end, sells its crowd out meanwhile, and ends with 0'
    remove_containers
    podman secret rm seckill >/dev/null
}

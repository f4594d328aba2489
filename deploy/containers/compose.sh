# shellcheck shell=bash
# Sourced by run.sh: docker-compose.yml, without and with its profile.

# Not the project's usual name: somebody may have the stack running.
export COMPOSE_PROJECT_NAME=seckill-check
port=18080 scale_port=18081
settings=$home/env
crowd='' running=''

# Some of what compose waits for has no end of its own: a server that never becomes healthy. In the background,
# because the shell hears of a signal only while it waits.
compose() {
    timeout "${patience:-300}" "${compose_program[@]}" --env-file "$settings" "$@" &
    running=$!
    local status=0
    wait "$running" || status=$?
    running=''
    return "$status"
}
quietly() { # quietly COMMAND...: its output goes to the log, whose end a failure shows
    printf '$ %s\n' "$*" >>"$home/log"
    "$@" >>"$home/log" 2>&1
}

# .env as a person makes it.
write_settings() {
    sed -e "s/^SECKILL_SECRET=\$/&$(hex 32)/" -e "s/^POSTGRES_PASSWORD=\$/&$(hex 24)/" \
        -e "s/^POSTGRES_SERVER_PASSWORD=\$/&$(hex 24)/" -e "s/^CITUS_PASSWORD=\$/&$(hex 24)/" \
        -e "s/^SECKILL_PORT=.*/SECKILL_PORT=$port/" -e "s/^SECKILL_SCALE_PORT=.*/SECKILL_SCALE_PORT=$scale_port/" \
        .env.example >"$settings"
    SECKILL_SECRET=$(sed -n 's/^SECKILL_SECRET=//p' "$settings")
    export SECKILL_SECRET
}
hex() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }

make_images() {
    : >"$home/log"
    write_settings
    if [ "$engine" = podman ] && ! reaches_a_registry; then
        CITUS_PACKAGE=$(scripts/setup.sh citus-package)
        export CITUS_PACKAGE
        local wanted
        # The images that the files name, but the one that is built here.
        mapfile -t wanted < <({
            compose --profile '*' config --images | grep -v '^seckill$'
            sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile
        } | sort -u)
        "$here/stand-ins/make.sh" "$home" "${OPT_LEVEL:-3}" "${wanted[@]}"
        done_with 'stand-ins for the base images'
    fi
    patience=3600 quietly compose build app
    done_with 'the Dockerfile builds the image'
}

take_down() { [ ! -e "$settings" ] || quietly compose --profile '*' down --volumes --remove-orphans --timeout 5; }

tell_what_was() {
    tail -n 15 "$home/log"
    compose --profile '*' ps --all 2>/dev/null
    compose --profile '*' logs --no-color --tail 15 2>/dev/null
}

# --- What both stacks are asked ---------------------------------------------------------------

up() { # up WHAT...: brings the stack up by the command that users are told
    quietly compose "${profile[@]}" up --wait --wait-timeout 180 "$@"
    forget_addresses
}
# in_server and in_database are commands that run what follows in a container.
seckill() { "${in_server[@]}" seckill "$@"; }
# As the superuser, whom only the socket in the container lets in.
sql() { "${in_database[@]}" psql --no-psqlrc --set=ON_ERROR_STOP=1 -AtF ' ' --username=postgres seckill --command "$1"; }
containers_of() { compose "${profile[@]}" ps --quiet "$1"; }
kill_one() { # kill_one SERVICE: as a crash or the kernel would
    quietly "${runtime[@]}" kill --signal KILL "$(containers_of "$1" | head -n 1)"
}
scale_to() { # scale_to NUMBER
    quietly compose "${profile[@]}" up --detach --no-recreate --no-deps --scale "$server=$1" "$server"
    forget_addresses
}
answers() { curl --silent --fail --max-time 2 --output /dev/null "http://127.0.0.1:$at/healthz"; }

users_made=0
sale() { sale_at "127.0.0.1:$at" "$@"; }
sale_at() { # sale_at HOST:PORT BUYERS STOCK SECONDS: a voucher and its crowd, which comes in the background
    local target=$1 buyers
    shift
    buyers=$1 stock=$2
    first=$((1000000 + users_made))
    users_made=$((users_made + buyers))
    voucher=$(seckill voucher add --title "containers $first" --stock "$stock")
    sql "insert into users (id, phone, nickname, created_at)
        select id, '+999' || id, 'buyer', now() from generate_series($first, $first + $buyers - 1) id" >/dev/null
    python3 "$here/buyers.py" "http://$target" "$voucher" "$first" "$buyers" "$3" "$home/told.json" &
    crowd=$!
}
is_settled() { # is_settled: all buyers have their answer, the audit holds, and the books say what buyers were told
    wait "$crowd" || die 'the crowd did not come to its end'
    crowd=''
    within 30 'an audit' seckill audit
    sql "select user_id, id from orders where voucher_id = $voucher" | python3 "$here/settle.py" "$home/told.json" "$stock" ||
        die 'the books do not say what buyers were told'
}
# An audit that cannot say no would prove nothing.
audit_notices() {
    sql "update seckill_vouchers set stock = stock + 1 where voucher_id = $voucher" >/dev/null
    if seckill audit >/dev/null 2>&1; then die 'the audit does not see a voucher too many'; fi
    sql "update seckill_vouchers set stock = stock - 1 where voucher_id = $voucher" >/dev/null
    seckill audit >/dev/null || die 'the audit does not hold any more'
}

servers_are_no_superusers() {
    local roles
    roles=$(sql "select distinct rolname, rolsuper from pg_stat_activity
        join pg_roles on rolname = usename where application_name like 'seckill %'")
    [ "$roles" = 'seckill_server f' ] || die "the servers log in as '$roles', expected 'seckill_server f'"
    local password
    password=$(sed -n 's/^POSTGRES_SERVER_PASSWORD=//p' "$settings")
    as() { compose "${profile[@]}" exec -T --env PGPASSWORD="$password" "$database" \
        psql --no-psqlrc --host="$database" --username="$1" seckill --command "$2" >/dev/null 2>&1; }
    as seckill_server 'select 1' || die 'the servers cannot log in'
    if as seckill_server 'create table t (id int)'; then die 'a server may make tables'; fi
    if as postgres 'select 1'; then die "the superuser logs in with the servers' password"; fi
}
# The balancer's id, not the client's, stands in the answer.
ids_are_the_balancers() {
    curl --silent --head --header 'X-Request-Id: mine' "http://127.0.0.1:$at/healthz" | tr -d '\r' |
        grep -iqE '^x-request-id: [0-9a-f-]{32,36}$' || die 'answers have no X-Request-Id of the balancer'
}
servers_are_told_apart() { # servers_are_told_apart NUMBER: all listen at 0.0.0.0:8080
    [ "$(sql "select count(distinct application_name) from pg_stat_activity
        where application_name ~ '^seckill [0-9a-f]+:8080 '")" = "$1" ] ||
        die "the names of the connections do not tell $1 servers apart"
}

# --- The plain stack --------------------------------------------------------------------------

try_plain() {
    profile=() server=app database=postgres at=$port
    in_server=(compose exec -T app) in_database=(compose exec -T postgres)
    up
    done_with 'up'
    servers_are_no_superusers
    servers_are_told_apart 2
    ids_are_the_balancers
    sale 200 150 2
    is_settled
    audit_notices
    done_with 'a sale through nginx, and an audit that also says no'

    sale 1200 1000 30
    sleep 3
    kill_one app
    sleep 3
    scale_to 2
    quietly compose restart redis
    forget_addresses
    sleep 3
    quietly compose restart postgres
    forget_addresses
    sleep 2
    scale_to 4
    sleep 3
    scale_to 2
    is_settled
    done_with 'a sale while a server is killed, Redis and PostgreSQL restarted, servers added'

    quietly compose down
    up
    within 30 'an audit' seckill audit
    sale 10 10 1
    is_settled
    [ "$(sql 'select count(*) from orders')" = 1160 ] || die 'orders are missing after down and up'
    done_with 'down and up again, with its data kept'
    take_down
}
# --- The profile `scale` ------------------------------------------------------------------------

try_scale() {
    if [ "${CITUS_PACKAGE-from a registry}" = '' ]; then
        say 'there is neither a registry nor a package of Citus (CITUS_PACKAGE): scale is left out.'
        return
    fi
    profile=(--profile scale) server=node database=coordinator at=$scale_port
    in_server=(compose --profile scale exec -T node) in_database=(compose --profile scale exec -T coordinator)
    up balancer
    done_with 'up: Citus, a Redis Cluster of six, two servers, HAProxy'
    servers_are_no_superusers
    servers_are_told_apart 2
    ids_are_the_balancers
    sale 200 150 2
    is_settled
    audit_notices
    done_with 'a sale through HAProxy, and an audit that also says no'

    sale 1200 1000 40
    sleep 3
    kill_one node
    sleep 3
    scale_to 2
    kill_one redis-1
    sleep 10 # its replica takes its place
    quietly compose "${profile[@]}" up --detach --no-recreate --no-deps redis-1
    forget_addresses
    scale_to 4
    sleep 5
    quietly compose "${profile[@]}" restart coordinator
    forget_addresses
    sleep 3
    scale_to 2
    is_settled
    done_with 'a sale while a server and a Redis master are killed, Citus restarted'

    quietly compose "${profile[@]}" down
    up balancer
    within 30 'an audit' seckill audit
    sale 10 10 1
    is_settled
    [ "$(sql 'select count(*) from orders')" = 1160 ] || die 'orders are missing after down and up'
    done_with 'down and up again, with its data kept'
    take_down
}

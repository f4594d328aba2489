# Every target does its own set-up: on a machine with a Rust toolchain, make and root or sudo,
# `make demo` and `make test` are all one has to type. What scripts/setup.sh has nothing to do
# for costs a few milliseconds.

.DEFAULT_GOAL := first
.DELETE_ON_ERROR:

# rustup puts cargo here; a shell that was open before the installation does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# `--locked` everywhere: what is built is what Cargo.lock says, or the build stops.
CARGO      ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# How what people look at is built: `demo` is compiled in half the time of `release`. With PROFILE=dev it is what the tests use.
PROFILE ?= demo
# What is measured and what is shipped is optimised.
bench dist judged loadtest scale screenshots: PROFILE = release
SECKILL = $(TARGET_DIR)/$(PROFILE:dev=debug)/seckill

# The server, the tools beside it, and what keeps private servers for both; and with the lab.
SERVER := -p seckill -p seckill-tools -p private-stores --bins
ALL    := -p seckill-play $(SERVER)
BUILD   = $(CARGO) build --locked --profile $(PROFILE)
# The programs that the tests start are compiled with them, by other features of what both use.
ifeq ($(PROFILE),dev)
BUILD   = $(CARGO) test --locked --no-run --workspace
SERVER :=
ALL    :=
endif

# make demo ARGS='--stock 500 --users 5000'
ARGS ?=

# What `make` alone shows: the targets to begin with, in this order.
FIRST := demo test play serve lab bench

.PHONY: first
first:
	@for target in $(FIRST); do \
		sed -n "s/^$$target:.*## /  make $$target\t/p" $(firstword $(MAKEFILE_LIST)); \
	done | expand -t 16
	@echo "make help lists all targets."

.PHONY: help
help: ## all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Arguments for a command: make demo ARGS='--stock 500 --users 5000'"

.PHONY: demo
demo: programs ## a whole flash sale against real servers, audited; ends with a verdict
	"$(SECKILL)" demo $(ARGS)

.PHONY: play
play: all-programs ## everything for people who look and learn: the show, the shop, the board, the ladder
	"$(SECKILL)" play --open $(ARGS)

.PHONY: serve
serve: programs ## the HTTP API on 127.0.0.1:8080, with a private PostgreSQL and Redis
	"$(SECKILL)" serve $(ARGS)

.PHONY: lab
lab: setup-lab all-programs ## every design of the ladder: what it keeps, and where it breaks; minutes
	@mkdir -p "$(TARGET_DIR)/lab"
	"$(SECKILL)" lab all --html "$(TARGET_DIR)/lab/report.html" --json "$(TARGET_DIR)/lab/report.json" $(ARGS)

.PHONY: explore
explore: setup-lab all-programs ## every interleaving of every design's steps, held against its claims; many minutes
	@mkdir -p "$(TARGET_DIR)/lab"
	"$(SECKILL)" lab explore --all --json "$(TARGET_DIR)/lab/explore.json" $(ARGS)

.PHONY: book
book: ## docs/ as a static site
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh book
	CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/book.sh "$(TARGET_DIR)/book/site"

# Most of a test's time is waiting for servers, so three tests a core keep the cores busy.
export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: isolation
isolation: setup-lab all-programs ## what each isolation level keeps, on PostgreSQL and MariaDB; a minute
	"$(SECKILL)" lab isolation $(ARGS)

.PHONY: test
test: setup-test ## all tests, against real PostgreSQL and Redis that they start themselves
	CARGO='$(CARGO)' scripts/in_memory.sh scripts/test.sh $(ARGS)

.PHONY: test-otlp
test-otlp: setup-test ## traces by OTLP, which only a build with the feature has; 2 minutes
	$(CARGO) test --locked -p seckill --features otlp --test otlp -- $(ARGS)

.PHONY: test-lock-model
test-lock-model: setup-test ## 10,000 random sequences of lock operations against a model; minutes
	$(CARGO) test --locked -p redisson-lock --all-features --test integration lock_model:: -- --ignored --nocapture $(ARGS)

# The sources lie in a folder: loadtest/judged/README.md says which, and how each is built.
.PHONY: judged
judged: programs ## seckill check judges a public backend: REPO=go-seckill DIR=where its sources are
	SECKILL="$$(realpath "$(SECKILL)")" loadtest/judged/run.sh "$(REPO)" "$(DIR)" $(ARGS)

.PHONY: judge-bugs
judge-bugs: setup-test ## seckill check judges 17 bugs and 6 right designs ten times each; 15 minutes
	$(CARGO) test --locked -p seckill-tools --test integration check::bugs:: -- --ignored --nocapture $(ARGS)

# By the versions that run.sh names, or REDISSON_VERSIONS='4.7.0'. ARGS=--fake: a lock that locks nothing.
.PHONY: test-redisson
test-redisson: ## the lock beside the real Redisson of Java, newest and 3.x; 2 minutes
	@scripts/setup.sh redisson
	$(CARGO) test --locked --no-run -p seckill -p private-stores
	crates/redisson-lock/tests/redisson/run.sh "$(TARGET_DIR)/debug/seckill" "$(TARGET_DIR)/redisson" $(ARGS)

.PHONY: course-java
course-java: ## does the Java of the course compile? ten seconds; ARGS=docs/ladder/r01_naive.md for one page
	@scripts/setup.sh course-java
	crates/ladder/tests/java/run.sh "$(TARGET_DIR)/course-java" $(ARGS)

# A round is run again by the line it prints. Where there is no libfaketime no clock jumps.
ROUNDS ?= 100
SEED   ?=

.PHONY: chaos
chaos: setup ## rounds of a sale in which servers die, pause, are cut off; ROUNDS=100 SEED=…; 5 minutes
	@scripts/setup.sh faketime || echo 'chaos: going on without libfaketime: no clock will jump' >&2
	ROUNDS=$(ROUNDS) SEED=$(SEED) $(CARGO) test --locked -p seckill --test integration chaos:: -- --ignored --nocapture $(ARGS)

# ARGS='sql --only ^cancel_order', ARGS=named, ARGS=rust; ARGS='sql --list' runs nothing.
.PHONY: mutants
mutants: setup-test ## changes one condition of orders and purchases at a time, lists what no test detects; hours
	@scripts/setup.sh mutants
	tests/mutants/run.py $(or $(ARGS),sql)

.PHONY: test-scale
test-scale: setup-scale ## the tests of distributed data: Citus, shards that move, workers that die; 2 minutes
	$(CARGO) test --locked -p seckill --test integration scale:: -- $(ARGS)

.PHONY: scale
scale: setup-scale programs ## 64 vouchers on Citus and Redis Cluster, beside one PostgreSQL: CPU time an order; minutes
	SCALE_PROGRAM="$$(realpath "$(SECKILL)")" $(CARGO) test --locked -p seckill --test integration scale::measure:: -- --ignored --nocapture $(ARGS)

.PHONY: lint
lint: fmt clippy doc lua js ## formatting, clippy, documentation, Lua, JavaScript; warnings are errors

.PHONY: bench
bench: setup-bench programs ## is my number normal? this machine's limits, and each strategy's share of them; minutes
	"$(SECKILL)" ceiling $(ARGS)

.PHONY: dist
dist: all-programs ## a tarball that runs without a compiler, and the image of the server
	scripts/dist.sh "$$(dirname "$(SECKILL)")" "$(TARGET_DIR)/dist"

.PHONY: loadtest
loadtest: ## k6 and JMeter against the server, which holds, and against rungs that do not; minutes
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh loadtest
	$(CARGO) build --locked --release $(ALL)
	CARGO_TARGET_DIR="$(TARGET_DIR)" loadtest/prove.sh

.PHONY: fuzz-api
fuzz-api: ## does the API do what its description says? schemathesis asks, 3 minutes
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh fuzz-api
	$(CARGO) build --locked --release $(SERVER)
	CARGO_TARGET_DIR="$(TARGET_DIR)" fuzz/api.sh

.PHONY: clients
clients: ## do clients that openapi-generator makes of the API's description compile? Go, TypeScript, Python
	CARGO_TARGET_DIR="$(TARGET_DIR)" fuzz/clients.sh

.PHONY: openapi
openapi: setup-test ## writes the API's description anew into the file that a test compares it with
	GOLDEN=write $(CARGO) test --locked -p seckill --test integration api::document::the_document_is_the_one_in_the_snapshot

.PHONY: explored
explored: setup-lab ## what explore found of every rung, for the page of the ladder; many minutes
	$(CARGO) test --locked -p seckill-play --test integration explored::write_what_was_explored -- --ignored

.PHONY: beaten
beaten: setup-lab ## which designs the crowd of the stage breaks, for the list beside it; many minutes
	$(CARGO) test --locked --no-run --workspace
	$(CARGO) test --locked -p seckill-play --test integration stage::beaten:: -- --ignored

.PHONY: course
course: setup-lab ## writes what is generated in docs/ladder anew: timelines, diagrams, tables; minutes
	$(CARGO) test --locked --no-run --workspace
	$(CARGO) test --locked -p seckill-lab --test integration ladder_docs::write_the_course -- --ignored

.PHONY: screenshots
screenshots: setup-test all-programs ## takes the pictures in the READMEs anew: the stage, the shop and the board, in both languages
	$(CARGO) test --locked --release -p seckill-play --test integration screenshots:: -- --ignored

.PHONY: deploy-check
deploy-check: ## are docker-compose.yml, the balancer's file and the manifests of Kubernetes well-formed?
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh deploy-check || true
	@CARGO_TARGET_DIR="$(TARGET_DIR)" deploy/check.sh

# ARGS='plain': one of plain and scale.
.PHONY: containers
containers: ## what is deployed, in real containers (Docker or podman): sales while servers and stores die; minutes
	@CARGO_TARGET_DIR="$(TARGET_DIR)" deploy/containers/run.sh $(ARGS)

.PHONY: setup
setup: ## what building and running need: compiler, PostgreSQL, Redis; only what is missing
	@scripts/setup.sh runtime

.PHONY: clean
clean: ## removes what was built
	$(CARGO) clean

# The parts.

.PHONY: programs
programs: setup
	@[ -x "$(SECKILL)" ] || echo "Compiling the server, once (2 to 5 minutes on two cores); then it starts within seconds."
	$(BUILD) $(SERVER)

.PHONY: all-programs
all-programs: setup
	@[ -x "$(SECKILL)-lab" ] || echo "Compiling the server and the lab, once (3 to 7 minutes on two cores, 1 or 2 after make demo); then they start within seconds."
	$(BUILD) $(ALL)

.PHONY: setup-test
setup-test:
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh runtime node browser lab ceiling pooler

.PHONY: setup-lab
setup-lab:
	@scripts/setup.sh runtime lab

.PHONY: setup-scale
setup-scale:
	@scripts/setup.sh scale

.PHONY: bench-lock
bench-lock: ## the lock beside other locks of Rust, and beside Redisson where there is Maven; 4 minutes
	@directory=$$(mktemp -d); \
	redis-server --port 0 --save '' --unixsocket $$directory/redis.sock --pidfile $$directory/pid --daemonize yes >/dev/null; \
	trap 'kill $$(cat $$directory/pid); rm -rf $$directory' EXIT; \
	CARGO_TARGET_DIR="$(TARGET_DIR)/bench-lock" $(CARGO) run --quiet --release --locked \
		--manifest-path crates/redisson-lock/tests/compare/Cargo.toml -- redis+unix://$$directory/redis.sock
	@! command -v mvn >/dev/null || { scripts/setup.sh redisson && REDISSON_VERSIONS=4.7.0 \
		crates/redisson-lock/tests/redisson/run.sh /bin/false "$(TARGET_DIR)/redisson" pace; }

.PHONY: setup-bench
setup-bench:
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh bench

.PHONY: setup-lint
setup-lint:
	@scripts/setup.sh lint

.PHONY: fmt
fmt: setup-lint
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy: setup-lint
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: doc
doc: setup-lint
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps

# The names wrk calls and sets are told in the heads of the scripts themselves.
.PHONY: lua
lua: setup-lint
	luacheck --quiet --std lua51 --read-globals redis KEYS ARGV cjson -- $(wildcard lua) $(wildcard crates/*/lua) loadtest/wrk

# Each published library is built by the compiler that its `rust-version` names.
.PHONY: msrv
msrv: ## the published libraries by the oldest compilers that they name
	@for crate in group-commit child-process redis-link redisson-lock; do \
		version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' crates/$$crate/Cargo.toml); \
		rustup run "$$version" rustc --version >/dev/null 2>&1 \
			|| rustup --quiet toolchain install "$$version" --profile minimal </dev/null \
			|| { echo "$$crate: Rust $$version cannot be installed here, left out" >&2; continue; }; \
		echo "$$crate by Rust $$version"; \
		CARGO_TARGET_DIR="$(TARGET_DIR)/msrv" rustup run "$$version" cargo check --locked --all-features -p $$crate || exit 1; \
	done

# Biome, from npm, into the build's own directory. biome.json says what it looks at.
BIOME := $(TARGET_DIR)/js/node_modules/.bin/biome

.PHONY: js
js: setup-js
	$(BIOME) check --error-on-warnings

.PHONY: js-test
js-test: ## the logic of the pages' scripts, by Node.js alone; a second
	@scripts/setup.sh node
	node --test web/tests/*.test.js crates/play/web/tests/*.test.js

.PHONY: setup-js
setup-js:
	@CARGO_TARGET_DIR="$(TARGET_DIR)" scripts/setup.sh js

# What the image holds is built from the server and its libraries alone: no load generator, no lab, no
# ladder. And the libraries that others use can be published as they stand.
.PHONY: production
production: setup-lint setup
	@! $(CARGO) tree --locked -e normal -p seckill | grep -E ' (load|ladder|course|seckill-lab|seckill-play|seckill-tools|sqlx-mysql) v' \
		|| { echo 'the server depends on a crate that it must not know' >&2; exit 1; }
	@! $(CARGO) tree --locked -p redisson-lock | grep -E ' (sqlx|axum)[a-z-]* v' \
		|| { echo 'the lock depends on sqlx or axum' >&2; exit 1; }
	@# Cargo unpacks a package once for each version, and compiles what it unpacked first: also when the package is another.
	@for name in group-commit child-process redis-link redisson-lock; do \
		rm -rf "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/$$name-*; done
	$(CARGO) package --locked --allow-dirty -p group-commit -p child-process -p redis-link -p redisson-lock

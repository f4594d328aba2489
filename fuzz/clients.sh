#!/usr/bin/env bash
# Do clients that a generator makes of the API's description compile? openapi-generator makes three, of the description that a
# test holds against the server (tests/api/snapshots/openapi.json): Go, TypeScript, Python.
#
#   make clients    comes here
#
# The generator is a jar of Maven Central; the libraries of the clients come from their registries. What the machine does not
# have is said in one line, and its client is left out. Outputs: target/clients.
#
# Exit 0: what could be compiled was; 1: a client does not compile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generator_version=7.17.0
typescript_version=5.9.3
description=$PWD/tests/api/snapshots/openapi.json
target=${CARGO_TARGET_DIR:-target}
clients=$(mkdir -p "$target/clients" && cd "$target/clients" && pwd)
jar=$clients/openapi-generator-cli-$generator_version.jar

say() { printf 'clients: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
leave_out() {
    say "$*"
    left_out=$((left_out + 1))
}
left_out=0 compiled=() failed=()

have java || { say 'left out: there is no Java for the generator.' && exit 0; }
if [[ ! -s $jar ]]; then
    have mvn || { say 'left out: there is no Maven to fetch the generator with.' && exit 0; }
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$clients" \
        -Dartifact=org.openapitools:openapi-generator-cli:$generator_version >"$clients/maven.log" 2>&1 ||
        { say "left out: Maven has no openapi-generator $generator_version ($clients/maven.log)." && exit 0; }
fi

# generate LANGUAGE OPTIONS...: where its client is.
generate() {
    local language=$1
    shift
    rm -rf "${clients:?}/$language"
    java -jar "$jar" generate -g "$language" -i "$description" -o "$clients/$language" "$@" \
        >"$clients/$language.log" 2>&1
}
# One constant of a state is named as one of another: the option gives each the name of its type.
go_client() {
    generate go --git-host example.org --git-user-id seckill --git-repo-id client \
        --additional-properties=packageName=seckill,enumClassPrefix=true &&
        (cd "$clients/go" && go vet . && grep -q 'Price \*\?int64' model_voucher_body.go)
}
typescript_client() {
    generate typescript-fetch --additional-properties=enumPropertyNaming=PascalCase &&
        "$clients/npm/node_modules/.bin/tsc" --noEmit --strict --target es2022 --module esnext \
            --moduleResolution bundler --lib es2022,dom "$clients/typescript-fetch/index.ts"
}
python_client() {
    generate python --additional-properties=packageName=seckill_client &&
        "$clients/venv/bin/pip" install -q "$clients/python" && (cd "$clients" && venv/bin/python -c '
import importlib, pkgutil, seckill_client
for module in pkgutil.walk_packages(seckill_client.__path__, "seckill_client."):
    importlib.import_module(module.name)')
}
# compile NAME FUNCTION
compile() {
    if "$2" >>"$clients/$2.log" 2>&1; then
        compiled+=("$1")
    else
        tail -n 20 "$clients/$2.log" >&2
        failed+=("$1")
    fi
}
rm -f "$clients"/*_client.log

if ! have go; then
    leave_out 'left out: Go; there is no go.'
elif ! (cd "$clients" && GOFLAGS=-mod=mod go mod download gopkg.in/validator.v2@v2.0.1) >/dev/null 2>&1; then
    leave_out 'left out: Go; its module proxy does not answer.'
else
    compile Go go_client
fi
if have npm && npm --prefix "$clients/npm" install --silent --no-audit --no-fund \
    "typescript@$typescript_version" >"$clients/npm.log" 2>&1; then
    compile TypeScript typescript_client
else
    leave_out "left out: TypeScript; npm is missing, or has no typescript $typescript_version."
fi
if python3 -m venv "$clients/venv" >"$clients/venv.log" 2>&1 &&
    "$clients/venv/bin/pip" install -q setuptools urllib3 pydantic python-dateutil >>"$clients/venv.log" 2>&1; then
    compile Python python_client
else
    leave_out 'left out: Python; there is no venv, or pip has not what the client needs.'
fi

if ((${#failed[@]} > 0)); then
    say "FAILED: the client in ${failed[*]} does not compile ($clients)."
    exit 1
fi
say "compiled: ${compiled[*]:-none}; left out: $left_out."

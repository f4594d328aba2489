#!/usr/bin/env bash
# Checks what is deployed, without a cluster and without a daemon: by the schemas of compose and of
# Kubernetes, and by the balancer itself. What is not installed is said in one line (`make deploy-check`
# installs what it can).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=${CARGO_TARGET_DIR:-target}/deploy-check
# The oldest Kubernetes that the manifests are for, and the newest that there are schemas of.
kubernetes_versions=(1.29 1.37)

say() { printf 'deploy-check: %s\n' "$*"; }

# The values are stand-ins: compose reads the file only when those without a default are set.
export POSTGRES_PASSWORD=none POSTGRES_SERVER_PASSWORD=none SECKILL_SECRET=none
# Not its wrapper in `bin`, which hides the exit status.
compose=("$(echo "$home"/compose/lib/python*/site-packages/compose/docker-compose)")
if docker compose version >/dev/null 2>&1; then compose=(docker compose); fi
if [ "${compose[0]}" = docker ] || [ -x "${compose[0]}" ]; then
    "${compose[@]}" --env-file /dev/null config --quiet
    "${compose[@]}" --env-file /dev/null --profile scale config --quiet
    say 'docker-compose.yml is well-formed, with and without the profile scale.'
else
    say 'there is no docker compose here: docker-compose.yml is not checked.'
fi

if command -v haproxy >/dev/null; then
    haproxy -c -q -f deploy/haproxy.cfg
    say 'haproxy takes haproxy.cfg.'
else
    say 'there is no haproxy here: haproxy.cfg is not checked.'
fi

# A name that stands in .env.example twice has the value of the last one, whatever a person uncomments.
twice=$(sed -n 's/^#\{0,1\} \{0,1\}\([A-Z_]*\)=.*/\1/p' .env.example | sort | uniq -d)
[ -z "$twice" ] || {
    say ".env.example names $twice twice."
    exit 1
}
# And what compose takes from .env stands there.
for name in $(grep -v '^ *#' docker-compose.yml | grep -o '\${[A-Z_]*' | cut -c3- | sort -u); do
    grep -q "^#\{0,1\}$name=" .env.example || [ "$name" = RUST_LOG ] || {
        say "docker-compose.yml wants $name, which .env.example does not name."
        exit 1
    }
done
say '.env.example names every variable of docker-compose.yml, and each once.'

if command -v python3 >/dev/null; then
    python3 deploy/observability/make_dashboard.py | cmp - deploy/observability/dashboard.json || {
        say 'dashboard.json is not what make_dashboard.py makes: run it again.'
        exit 1
    }
    say 'dashboard.json is what make_dashboard.py makes.'
else
    say 'there is no python3 here: dashboard.json is not checked.'
fi
if command -v promtool >/dev/null && command -v python3 >/dev/null; then
    promtool check config deploy/observability/prometheus.yml >/dev/null
    promtool test rules deploy/observability/alerts_test.yml >/dev/null || {
        promtool test rules deploy/observability/alerts_test.yml
        exit 1
    }
    # Expressions of the dashboard, as rules.
    mkdir -p "$home"
    python3 - deploy/observability/dashboard.json >"$home/dashboard-rules.yml" <<'EOF'
import json, sys
panels = json.load(open(sys.argv[1]))["panels"]
expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(expressions)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
EOF
    promtool check rules "$home/dashboard-rules.yml" >/dev/null
    say 'promtool takes the scrape configuration and the expressions of the dashboard, and each alert fires when it must.'
else
    say 'there is no promtool here (the package prometheus), or no python3: alerts are not checked.'
fi

kustomize=()
if command -v kubectl >/dev/null; then kustomize=(kubectl kustomize); fi
if command -v kustomize >/dev/null; then kustomize=(kustomize build); fi
validate=$home/kubernetes-validate/bin/kubernetes-validate
manifests=(deploy/kubernetes/*.yaml deploy/kubernetes/migration/*.yaml)
# It is kustomize's own file, and no resource.
for index in "${!manifests[@]}"; do
    case ${manifests[index]} in */kustomization.yaml) unset "manifests[index]" ;; esac
done
if [ ${#kustomize[@]} -gt 0 ]; then
    mkdir -p "$home"
    "${kustomize[@]}" deploy/kubernetes >"$home/servers.yaml"
    "${kustomize[@]}" deploy/kubernetes/migration >"$home/migration.yaml"
    manifests=("$home/servers.yaml" "$home/migration.yaml")
    say "${kustomize[*]} builds the manifests."
else
    say 'there is neither kustomize nor kubectl here: each manifest is checked by itself.'
fi
if [ -x "$validate" ]; then
    for version in "${kubernetes_versions[@]}"; do
        "$validate" --strict --quiet -k "$version" "${manifests[@]}"
        say "the manifests fit the schemas of Kubernetes $version."
    done
else
    say 'there is no kubernetes-validate here: the manifests are not checked.'
fi

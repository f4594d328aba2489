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
export POSTGRES_PASSWORD=none SECKILL_SECRET=none
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

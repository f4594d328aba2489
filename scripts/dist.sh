#!/usr/bin/env bash
# What runs without a compiler: scripts/dist.sh PROGRAMS DIRECTORY
#
# Packs the programs that lie in PROGRAMS, with the script that installs PostgreSQL and Redis, into a tarball in DIRECTORY;
# their pages are inside them. Then builds the image of the server, if there is a Docker daemon.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=$1 directory=$2

version=$(sed -n '/^\[workspace.package\]/,/^$/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=seckill-$version-$(uname -m)-$(uname -s | tr '[:upper:]' '[:lower:]')
place=$directory/$name
rm -rf "$place"
mkdir -p "$place"
for program in seckill seckill-tools seckill-lab private-stores; do
    strip -o "$place/$program" "$programs/$program"
done
cp -p --parents scripts/setup.sh crates/private-stores/packages.txt LICENSE README.md README.zh-CN.md "$place"
tar -C "$directory" --owner=0 --group=0 -czf "$directory/$name.tar.gz" "$name"
rm -rf "$place"
echo "$directory/$name.tar.gz: unpack it; \`scripts/setup.sh stores\` installs PostgreSQL and Redis, \`./seckill demo\` sells."

if docker info >/dev/null 2>&1; then
    docker build --tag "seckill:$version" .
else
    echo "There is no Docker daemon here: the image seckill:$version (docker build .) is left out."
fi

#!/usr/bin/env bash
# docs/ as a static site, which opens without a server: `make book`.
#
#   scripts/book.sh DIRECTORY
#
# Renders every page of docs/ with mdBook into DIRECTORY/html, and looks for links that lead nowhere. DIRECTORY
# must be new, empty, or one that this script has made.
set -euo pipefail

die() {
    echo "book: $*" >&2
    exit 2
}

[ $# -eq 1 ] || die 'usage: scripts/book.sh DIRECTORY'
book=$(realpath --canonicalize-missing "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=${CARGO_TARGET_DIR:-target}/book
[ -x "$tools/mdbook/bin/mdbook" ] || die 'mdBook is missing: scripts/setup.sh book brings it.'
# What is in it is deleted.
[ ! -e "$book" ] || [ -e "$book/book.toml" ] || [ -z "$(ls -A "$book")" ] || die "$book has something else in it."
mkdir -p "$book"
rm -rf "$book/src" "$book/html"
mkdir -p "$book/src"
cp -r docs/*.md docs/images docs/ladder docs/receivers "$book/src"
cp docs/book/book.toml docs/book/diagrams.js "$tools/mermaid.min.js" "$book"

# --- The contents ----------------------------------------------------------------------------

# The rungs in order: `r01_naive`.
rungs() {
    for page in docs/ladder/r[0-9]*.zh-CN.md; do basename "$page" .zh-CN.md; done
}

# A page is called what its first heading says.
entry() { # entry INDENT FILE
    [ -e "$book/src/$2" ] || return 0
    printf '%s- [%s](%s)\n' "$1" "$(sed -n '/^# /{s///p;q}' "$book/src/$2")" "$2"
}

contents() { # contents ENDING: the pages of one language
    entry '' "ladder$1"
    for rung in $(rungs); do entry '  ' "ladder/$rung$1"; done
    for page in "$book"/src/ladder/*"$1"; do
        name=ladder/$(basename "$page")
        # `*.md` finds the Chinese pages, too.
        case $1:$name in .md:*.zh-CN.md | *:ladder/r[0-9]*) continue ;; esac
        entry '  ' "$name"
    done
    for page in locks reference events check judged reliability operations benchmarks postgresql scaling; do entry '' "$page$1"; done
}

{
    printf '# Summary\n\n# English\n\n'
    contents .md
    printf '\n# 中文\n\n'
    contents .zh-CN.md
} >"$book/src/SUMMARY.md"

# --- Links that lead out of docs/ ------------------------------------------------------------

# A file comes along under `source/`, as text; a directory is only named.
find "$book/src" -name '*.md' | while read -r page; do
    directory=$(dirname "${page#"$book/src/"}")
    up=$([ "$directory" = . ] || echo ../)
    grep -oE '\]\((\.\./)+[^)# ]*' "$page" | sort -u | cut -c3- | while read -r link; do
        file=$(realpath --canonicalize-missing --relative-to=. "docs/$directory/$link")
        case $file in docs/*) continue ;; esac
        if [ -f "$file" ]; then
            mkdir -p "$book/src/source/$(dirname "$file")"
            # mdBook takes what ends in .md for one of its own pages.
            copy=source/${file%.md}.txt
            cp "$file" "$book/src/$copy"
            sed -i "s|]($link\(#[^)]*\)\?)|]($up$copy)|g" "$page"
        else
            sed -i "s|\[\([^]]*\)\]($link)|\1|g" "$page"
        fi
    done || true
done

"$tools/mdbook/bin/mdbook" build --dest-dir "$book/html" "$book"

# --- No link leads nowhere -------------------------------------------------------------------

dead=$(
    cd "$book/html"
    find . -name '*.html' ! -name 404.html -print0 |
        xargs -0 grep -oE '(href|src)="[^"#]+' |
        sed -E 's/^([^:]*\/)([^/:]*):(href|src)="/\1 \2 /' | grep -vE ' (https?|mailto|data):' | sort -u |
        while read -r directory page link; do
            [ -e "$directory$link" ] || [ -e "$directory$(printf '%b' "${link//%/\\x}")" ] ||
                printf '%s%s: %s\n' "$directory" "$page" "$link"
        done
)
if [ -n "$dead" ]; then
    printf 'links that lead nowhere:\n%s\n' "$dead" >&2
    exit 1
fi
echo "$book/html/index.html"

#!/bin/sh
# Compiles every Java block of the course, and says on which line of which page one does not compile.
#
#   crates/ladder/tests/java/run.sh BUILD [PAGE...]
#
# BUILD is a directory for what is built. Without a PAGE: docs/ladder.md, docs/ladder/*.md and their twins.
# A block is ```java NAME, the members of a class that extends Course.java. A page becomes one source file:
# package and imports are its first line, and every block stays where it stands in the page, so that
# javac's line is the page's.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
shift
cd "$here/../../../.."
export LC_ALL=C.UTF-8

fail() {
    printf 'course-java: %s\n' "$*" >&2
    exit 1
}

# sources DIRECTORY PAGE...: the source files; prints how many blocks they have.
sources() {
    directory=$1
    shift
    rm -rf "$directory"
    for page in "$@"; do mkdir -p "$directory/$(dirname "$page")"; done
    awk -v directory="$directory" -v head="package course; $(tr '\n' ' ' <"$here/imports")" '
        function flush() {
            if (heading && !named) {
                printf "%s:%d: there is no ```java %s below this heading\n", page, heading, id >"/dev/stderr"
                failed = 1
            }
            if (blocks) {
                printf "%s", text >(directory "/" page ".java")
                close(directory "/" page ".java")
            }
            count += blocks
        }
        FNR == 1 {
            flush()
            page = FILENAME
            id = page
            sub(".*/", "", id)
            name = id
            gsub(/[^A-Za-z0-9]/, "_", name)
            sub(/[.].*/, "", id)
            text = head "\n"
            blocks = inside = heading = named = 0
            next
        }
        inside && /^```/ { inside = 0; text = text "}\n"; next }
        inside { text = text $0 "\n"; next }
        /^```java( |$)/ {
            inside = 1
            blocks++
            named = named || $2 == id
            text = text "abstract class " name "_" FNR " extends Course {\n"
            next
        }
        /^## (The same in Java|用 Java 怎么写)$/ { heading = FNR }
        { text = text "\n" }
        END { flush(); print count; exit failed }
    ' "$@"
}

# compile DIRECTORY: what javac says, with the page in place of the source file.
compile() {
    find "$1" -name '*.java' | sort | sed 's/.*/"&"/' >"$build/sources"
    # No warning of deprecated calls: the course shows them, and says so.
    javac -d "$build/classes" -classpath "$(cat "$build/classpath")" --release 17 -encoding UTF-8 -proc:none \
        -Xmaxerrs 1000 -Xlint:all,-deprecation,-processing,-classfile -Werror \
        "$here/Course.java" "@$build/sources" >"$build/said" 2>&1 && return
    sed "s|^$1/\(.*[.]md\)[.]java:|\1:|" "$build/said"
    return 1
}

said=$(mvn --batch-mode --quiet --file "$here/pom.xml" "-Dmdep.outputFile=$build/classpath" \
    dependency:build-classpath </dev/null 2>&1) || fail "Maven: $said"

# A page that is broken on purpose has to be refused first, for its line.
sources "$build/broken" crates/ladder/tests/java/broken.md >/dev/null
! said=$(compile "$build/broken") || fail 'javac accepted the wrong block of broken.md'
case $said in
*'java/broken.md:9: error:'*'1 error'*) ;;
*) fail "broken.md was refused, but not for its line 9: $said" ;;
esac

[ $# -gt 0 ] || set -- docs/ladder.md docs/ladder.zh-CN.md docs/ladder/*.md
count=$(sources "$build/pages" "$@") || fail 'a page has no Java'
[ "$count" -gt 0 ] || fail 'there is no Java block in these pages'
compile "$build/pages" >&2 || fail 'these blocks do not compile'
echo "course-java: blocks that compile: $count"

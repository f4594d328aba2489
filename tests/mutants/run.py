#!/usr/bin/env python3
"""Mutates the program one condition at a time, and says which mutants no test fails for.

    tests/mutants/run.py sql [TESTS...]     the functions of migrations/0002_functions.sql, in place, without a compiler
    tests/mutants/run.py named [TESTS...]   the same with the faults of named.toml
    tests/mutants/run.py rust [TESTS...]    the mutations of rust.toml, all compiled into one copy of the sources

TESTS are filters of the server's test program, run one after the other until one of them fails; a mutant for which none fails
survives. --list prints the mutants.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "migrations/0002_functions.sql"
HERE = pathlib.Path(__file__).resolve().parent
USUAL = ["orders::life_model", "orders::", "purchase::"]
LIMIT_S = 180


def functions(sql):
    """Name, offset and text of each function."""
    for match in re.finditer(r"^create function (\w+)\((?:[^\n]*';$|.*?^(?:\$\$;|as '[^']*';))", sql, re.S | re.M):
        yield match[1], match.start(), match[0]


NAME = r"^create function (\w+)\(\) .* as 'select \d+::smallint';\n"


def names_of_numbers(sql):
    """Each name of a number, and the next one of its kind. The names of a kind stand together in the file."""
    for kind in re.finditer(rf"(?:{NAME})+", sql, re.M):
        names = re.findall(NAME, kind[0], re.M)
        yield from zip(names, names[1:] + names[:1])


# The line with one part of it changed, in each way that is worth a test.
def mutations_of(line, next_names):
    code = line.split("--")[0]
    found = []

    def put(start, end, text):
        found.append(line[:start] + text + line[end:])

    for match in re.finditer(r" (<=|>=|<>|<|>) ", code):
        for other in {"<=": ["<", ">"], ">=": [">", "<"], "<": ["<="], ">": [">="], "<>": ["="]}[match[1]]:
            put(match.start(1), match.end(1), other)
    # One part of a condition goes. That a statement names the voucher is for Citus: an id finds the same row.
    for match in re.finditer(r"\b(and|or) (not )?([^;]*?)(?= and | or | then\b|;|$)", code):
        part = match[3].strip()
        is_whole = part.count("(") == part.count(")") and part
        if is_whole and "voucher_id" not in part and "place > 0" not in part:
            put(match.start(), match.end(), f"{match[1]} {'true' if match[1] == 'and' else 'false'}")
    for match in re.finditer(r"^\s*(?:els)?if (.*) then$", code):
        put(match.start(1), match.end(1), "true")
        put(match.start(1), match.end(1), "false")
    for match in re.finditer(r"^\s*when (.*?) then ", code):
        put(match.start(1), match.end(1), "false")
    for match in re.finditer(r"\b(stock|revision) = \1 ([+-]) ", code):
        put(match.start(2), match.end(2), "+ 0 * ")
    for match in re.finditer(r"in \(([\d, ]+)\)", code):
        for number in match[1].split(", "):
            rest = [it for it in match[1].split(", ") if it != number]
            put(match.start(), match.end(), f"in ({', '.join(rest)})")
    for match in re.finditer(r"^\s*perform (?!pg_|set_config|from)\w+\(.*\);", code):
        put(match.start(), match.end(), "")
    for match in re.finditer(r"^\s*perform pg_advisory.*;", code):
        put(match.start(), match.end(), "")
    for match in re.finditer(r" ?for no key update(?= skip| nowait|;|$)", code):
        put(match.start(), match.end(), "")
    for match in re.finditer(r"\b(\w+)\(\)", code):
        if match[1] in next_names:
            put(match.start(1), match.end(1), next_names[match[1]])
    # What a step does to the stock, in the table of transitions.
    for match in re.finditer(r"^\s*\('\w+', .* (-?\d)\),?$", code):
        put(match.start(1), match.end(1), "1" if match[1] == "0" else "0")
    return found


def sql_mutants():
    sql = FUNCTIONS.read_text()
    next_names = dict(names_of_numbers(sql))
    for name, begin, text in functions(sql):
        if name == "sale_time" or name in next_names:
            continue
        number = sql[:begin].count("\n")
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if len(lines) > 1 and (at < 2 or line.startswith(("create", "set ", "language", "returns"))):
                continue
            for mutated in mutations_of(line, next_names):
                whole = "\n".join([*lines[:at], mutated, *lines[at + 1 :]])
                whole = whole.replace("create function", "create or replace function", 1)
                yield f"{name}:{number + at + 1}: {line.strip()} -> {mutated.strip() or 'nothing'}", whole


def named_mutants():
    texts = {name: text for name, _, text in functions(FUNCTIONS.read_text())}
    for name, of in tomllib.loads((HERE / "named.toml").read_text()).items():
        text = texts[of["function"]]
        if text.count(of["old"]) != 1:
            sys.exit(f"{name}: what it replaces stands in {of['function']} {text.count(of['old'])} times")
        whole = text.replace(of["old"], of["new"]).replace("create function", "create or replace function", 1)
        yield f"{of['function']}: {name}", whole


def program(root):
    built = subprocess.run(
        ["cargo", "test", "--locked", "-p", "seckill", "--test", "integration", "--no-run", "--message-format=json"],
        cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return re.findall(r'"executable":"([^"]*integration-[^"]*)"', built.stdout)[-1]


def is_caught(command, environment):
    """Which test fails, if one does, and after how long."""
    begun = time.monotonic()
    # Appended to: reading here must not move the place at which the program writes.
    with tempfile.TemporaryFile("a+") as output:
        process = subprocess.Popen(
            [str(ROOT / "scripts/in_memory.sh"), *command], cwd=environment["CARGO_MANIFEST_DIR"], env=os.environ | environment,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

        def failed():
            output.seek(0)
            text = output.read()
            found = re.search(r"^test (\S+) \.\.\. FAILED|panicked at ([^\n]*)", text, re.M)
            if "the mutant is SQL" in text:
                return "NOT SQL"
            return found and (found[1] or found[2])

        who = None
        try:
            while process.poll() is None and not who:
                who = "no end" if time.monotonic() - begun > LIMIT_S else failed()
                time.sleep(0.1)
        finally:
            # Also when this program is told to end: a mutant may have no end.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        who = who or failed() or (process.returncode and f"status {process.returncode}")
    return who, time.monotonic() - begun


def report(mutants, tests, run, unchanged):
    for test in tests:
        who, seconds = run("", unchanged, test)
        print(f"unchanged {seconds:5.1f} s  {test}", flush=True)
        if who:
            sys.exit(f"{who} fails without a mutant")
    survivors, count = [], 0
    for name, what in mutants:
        count += 1
        who, seconds = None, 0
        for test in tests:
            who, took = run(name, what, test)
            seconds += took
            if who:
                break
        if who and "NOT SQL" in who:
            print(f"is no SQL          {name}", flush=True)
            count -= 1
            continue
        print(f"{'caught  ' if who else 'SURVIVES'} {seconds:5.1f} s  {name}{f'   [{who}]' if who else ''}", flush=True)
        if not who:
            survivors.append(name)
    print(f"{count} mutants, {len(survivors)} survive")
    for name in survivors:
        print("  " + name)


def only_steps_of(name):
    """Only steps that call the function have to meet; all of them if other functions call it."""
    sql = FUNCTIONS.read_text()
    is_helper = any(re.search(rf"\b{name}\(", text.split("(", 1)[1]) for _, _, text in functions(sql))
    return {} if is_helper or not name else {"ORDER_LIFE_FUNCTION": name}


def run_sql(arguments):
    mutants = {"sql": sql_mutants, "named": named_mutants}[arguments.what]()
    mutants = [it for it in mutants if re.search(arguments.only, it[0])]
    if arguments.list:
        print("\n".join(name for name, _ in mutants))
        return
    binary = arguments.program or program(ROOT)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        def run(name, sql, test):
            file.seek(0)
            file.truncate()
            file.write(sql)
            file.flush()
            return is_caught([binary, test], {
                "TEST_FUNCTIONS": file.name, "CARGO_MANIFEST_DIR": str(ROOT), "RUST_TEST_THREADS": "6",
                **only_steps_of(name.split(":")[0])})
        report(mutants, arguments.tests, run, "")


def rust_mutants():
    of_rooms = tomllib.loads((HERE / "rust.toml").read_text()).values()
    mutations = [(file, old, new) for room in of_rooms for file, all_of in room.items() for old, new in all_of]
    return [(number, f"{file}: {old} -> {new or 'nothing'}", file, old, new)
            for number, (file, old, new) in enumerate(mutations, 1)]


def put_switch(source, number, file, old, new):
    """An environment variable chooses between both when the program runs, so that all mutants are compiled once."""
    if source.count(old) != 1:
        sys.exit(f"{file}: {old!r} stands there {source.count(old)} times")
    switch = f"crate::is_mutated({number})"
    if "{M}" in new:
        return source.replace(old, new.replace("{M}", switch))
    choice = f"if {switch} {{ {new} }} else {{ {old} }}"
    return source.replace(old, choice if old.endswith(";") else f"({choice})")


SWITCH = """
#[allow(missing_docs)]
pub fn is_mutated(number: u32) -> bool {
    static WHICH: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("MUTANT").map_or(0, |it| it.parse().unwrap()));
    *WHICH == number
}
"""


def run_rust(arguments):
    mutants = [it for it in rust_mutants() if re.search(arguments.only, it[1])]
    if arguments.list:
        print("\n".join(f"{number}: {name}" for number, name, *_ in mutants))
        return
    with tempfile.TemporaryDirectory() as place:
        copy = pathlib.Path(place) / "seckill"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("target", ".git"))
        for number, _, file, old, new in rust_mutants():
            (copy / file).write_text(put_switch((copy / file).read_text(), number, file, old, new))
        library = copy / "src/lib.rs"
        library.write_text(library.read_text().replace("\npub mod", "\n#![allow(warnings, clippy::all)]\npub mod", 1) + SWITCH)
        # In the directory of the sources themselves their programs would be overwritten.
        os.environ["CARGO_TARGET_DIR"] = str(ROOT / "target/mutants")
        binary = program(copy)
        report([(name, number) for number, name, *_ in mutants], arguments.tests,
               lambda _, number, test: is_caught([binary, test], {
                   "MUTANT": str(number), "CARGO_MANIFEST_DIR": str(copy), "RUST_TEST_THREADS": "6"}), 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sql", "named", "rust"])
    parser.add_argument("tests", nargs="*", default=USUAL)
    parser.add_argument("--only", default="", help="only mutants whose line has this pattern")
    parser.add_argument("--program", help="a copy of the test program; by default it is built")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    arguments = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    {"sql": run_sql, "named": run_sql, "rust": run_rust}[arguments.what](arguments)


main()

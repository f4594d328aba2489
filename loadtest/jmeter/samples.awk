# What the programs that judge JMeter's samples share: the lines of its CSV, and a line for each check.

# Fields of a line of CSV: commas within quotation marks part nothing.
function split_csv(line,    n, quoted, i, c) {
    # The long way only where there is a quotation mark.
    if (!index(line, "\"")) return split(line, field, ",")
    n = 1; field[1] = ""; quoted = 0
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) field[++n] = ""
        else field[n] = field[n] c
    }
    return n
}
function check(name, value, limit, ok, meaning) {
    printf "  %s %-21s %8d  %-8s  %s\n", ok ? "ok  " : "FAIL", name, value, limit, meaning
    if (!ok) broken = broken (broken ? ", " : "") name " " value
}
function give_verdict() {
    printf "\n  %s\n", broken ? "FAILED: " broken "." : "HOLDS: every check did."
    exit broken != ""
}
{ sub(/\r$/, "") }
NR == 1 { n = split_csv($0); for (i = 1; i <= n; i++) at[field[i]] = i; next }
$0 == "" { next }
# A line that goes on, of a message of several lines, is none.
split_csv($0) < at["success"] { next }
{ samples++; if (field[at["success"]] != "true") failed++ }

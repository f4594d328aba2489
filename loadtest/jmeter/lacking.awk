# Says what a plan of JMeter's lacks before it can run: properties without a default that nobody gives,
# files of CSV Data Sets that are not there, variables that nothing in it defines. One sentence a line.
#
#   PLAN_DIR=directory GIVEN='name=value' awk -f lacking.awk plan.jmx
#
#   PLAN_DIR  where the plan lies: names of files are taken from there
#   GIVEN     the properties that JMeter will be given, one a line
#
# It reads the plan as JMeter writes it. What is disabled counts for nothing; a script may define more
# than its `vars.put("name", …)` shows, so what scripts use is not looked at.

BEGIN {
    RS = "<"
    n = split(ENVIRON["GIVEN"], lines, "\n")
    for (i = 1; i <= n; i++) if ((at = index(lines[i], "=")) > 1) property[substr(lines[i], 1, at - 1)] = substr(lines[i], at + 1)
    # What JMeter defines.
    n = split("START.MS START.YMD START.HMS TESTSTART.MS JMeterThread.last_sample_ok JMeterThread.pack", lines, " ")
    for (i = 1; i <= n; i++) defined[lines[i]] = 1
}

function decoded(text) {
    gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
    gsub(/&#xd;/, "", text); gsub(/&#x?[0-9a-fA-F]+;/, " ", text)
    gsub(/&amp;/, "\\&", text)
    return text
}
function trimmed(text) { sub(/^[ \t\r\n]+/, "", text); sub(/[ \t\r\n]+$/, "", text); return text }
function define_all(list,    names, n, i) {
    n = split(list, names, /[,;]/)
    for (i = 1; i <= n; i++) defined[trimmed(names[i])] = 1
}
# Where the bracket ends that is open at the start of `text`; 0: nowhere.
function end_of_bracket(text,    depth, i, c) {
    depth = 1
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "(") depth++
        else if (c == ")" && --depth == 0) return i
    }
    return 0
}
# With the properties that are known put in, as far as the defaults are plain.
function expanded(text,    at, end, arguments, comma, name, value, steps) {
    # A value may name itself: then it has no end.
    while (++steps < 50 && match(text, /\$\{__(P|property)\([^()]*\)\}/)) {
        arguments = substr(text, RSTART, RLENGTH)
        at = RSTART; end = RSTART + RLENGTH
        sub(/^[^(]*\(/, "", arguments); sub(/\)\}$/, "", arguments)
        comma = index(arguments, ",")
        name = trimmed(comma ? substr(arguments, 1, comma - 1) : arguments)
        value = arguments; sub(/^.*,/, "", value)
        if (name in property) value = property[name]
        else if (!comma) return ""
        text = substr(text, 1, at - 1) value substr(text, end)
    }
    while (++steps < 100 && match(text, /\$\{[^${}()]+\}/)) {
        name = substr(text, RSTART + 2, RLENGTH - 3)
        if (!(name in literal)) return ""
        text = substr(text, 1, RSTART - 1) literal[name] substr(text, RSTART + RLENGTH)
    }
    return index(text, "${") ? "" : text
}
# Notes what `text` asks for: `${__P(name)}`, `${name}`. Of functions also the name that they store under, the last
# argument.
function look_at(text,    at, rest, end, call, arguments, name, parts, n) {
    while ((at = index(text, "${")) > 0) {
        text = substr(text, at + 2)
        if (match(text, /^__[A-Za-z0-9]+\(/)) {
            call = substr(text, 3, RLENGTH - 3)
            rest = substr(text, RLENGTH + 1)
            end = end_of_bracket(rest)
            arguments = end ? substr(rest, 1, end - 1) : rest
            n = split(arguments, parts, ",")
            name = trimmed(parts[1])
            if ((call == "P" && n < 2) || (call == "property" && n < 3)) {
                if (index(name, "${") == 0) wanted_property[name] = "${__" call "(" arguments ")}"
            } else if (call != "P" && call != "property" && call != "V" && n > 1) defined[trimmed(parts[n])] = 1
        } else if (match(text, /^[^${}()<>"',; \t\r\n]+\}/)) {
            name = substr(text, 1, RLENGTH - 1)
            if (name !~ /^__/ && !(name in used)) { used[name] = 1; uses[++used_count] = name }
        }
    }
}
function define_in_script(text,    name) {
    while (match(text, /vars\.put(Object)?\([ \t]*["'][^"']+["']/)) {
        name = substr(text, RSTART, RLENGTH)
        sub(/^[^"']*["']/, "", name); sub(/["']$/, "", name)
        defined[name] = 1
        text = substr(text, RSTART + RLENGTH)
    }
}

# --- Reading ---------------------------------------------------------------------------------

NR == 1 { next }
in_comment { if (index($0, "-->")) in_comment = 0; next }
/^!--/ { if (!index($0, "-->")) in_comment = 1; next }
/^[?!]/ { next }
{
    gt = index($0, ">")
    head = substr($0, 1, gt - 1); text = substr($0, gt + 1)
    closing = head ~ /^\//; empty = head ~ /\/$/
    tag = head; sub(/^\//, "", tag); sub(/[ \t\r\n\/].*$/, "", tag)
}
# Something disabled, and the tree of what stands below it.
skipping == "element" {
    if (tag == skipped_tag && !empty && (depth += closing ? -1 : 1) == 0) skipping = "before its tree"
    next
}
skipping == "before its tree" {
    skipping = ""
    if (tag == "hashTree" && empty) next
    if (tag == "hashTree" && !closing) { skipping = "tree"; depth = 1; next }
}
skipping == "tree" {
    if (tag == "hashTree" && !empty && (depth += closing ? -1 : 1) == 0) skipping = ""
    next
}
!closing && head ~ /[ \t]enabled="false"/ {
    skipping = empty ? "before its tree" : "element"
    skipped_tag = tag; depth = 1
    next
}
tag !~ /Prop$/ && tag != "hashTree" {
    if (!closing) {
        element = tag
        csv_file = csv_names = ""; csv_delimiter = ","
        csv_title = head; sub(/^.*testname="/, "", csv_title); sub(/".*$/, "", csv_title)
    } else if (tag == "CSVDataSet") {
        csv_count++
        files[csv_count] = csv_file; names_of[csv_count] = csv_names
        delimiters[csv_count] = csv_delimiter; titles[csv_count] = decoded(csv_title)
    }
    next
}
closing || tag !~ /Prop$/ { next }
{
    name = head
    if (!sub(/^.*[ \t]name="/, "", name)) name = ""
    sub(/".*$/, "", name)
    value = decoded(text)
    if (tag ~ /^(collection|element)Prop$/) next
    if (element == "CSVDataSet") {
        if (name == "filename") csv_file = trimmed(value)
        else if (name == "variableNames") csv_names = trimmed(value)
        else if (name == "delimiter") csv_delimiter = value
    }
    if (element == "Arguments" || element == "TestPlan") {
        if (name == "Argument.name") { argument = trimmed(value); defined[argument] = 1 }
        else if (name == "Argument.value") literal[argument] = value
    }
    if (element == "UserParameters") defined[trimmed(value)] = 1
    if (name ~ /([rR]ef(erence)?[nN]ames?|returnVal|CounterConfig\.name|[vV]ariable(Name)?s?|[rR]esultVariable|variableNames)$/) define_all(value)
    define_in_script(value)
    if (name != "script" && name !~ /(BeanShell|BSF|JSR223|Script)[A-Za-z]*\.(query|script)$/ && name != "TestPlan.comments") look_at(value)
}

# --- What is lacking -------------------------------------------------------------------------

# The lines of a file that is there, or -1; sets `first_line`.
function lines_of(file,    rs, count, line, got) {
    rs = RS; RS = "\n"; count = 0; first_line = ""
    while ((got = (getline line < file)) > 0) if (++count == 1) { first_line = line; break }
    close(file); RS = rs
    return got < 0 ? -1 : count
}
function is_defined(name,    base) {
    if (name in defined) return 1
    # Of an extractor's: x_1, x_matchNr, x_g, x_g1, x_1_g1; of a controller's index; of a cookie.
    base = name
    if (base ~ /^(__jm__|COOKIE_)/) return 1
    if (sub(/(_[0-9]+)?(_g[0-9]*|_matchNr)$/, "", base) || sub(/_[0-9]+$/, "", base)) return base in defined
    return 0
}
END {
    for (name in wanted_property) if (!(name in property))
        print "the property '" name "': " wanted_property[name] " has no default, so give it by -J" name "=VALUE"
    for (i = 1; i <= csv_count; i++) {
        file = expanded(files[i])
        if (names_of[i] != "") define_all(names_of[i])
        if (file == "") { if (names_of[i] == "") unknown_names = 1; continue }
        count = lines_of(file)
        if (count < 0 && file !~ /^\//) count = lines_of(ENVIRON["PLAN_DIR"] "/" file)
        if (count < 1)
            print "the file '" file "' of its CSV Data Set '" titles[i] "'" (count == 0 ? ", which is empty" : "") ": write it, or name another one in the plan"
        if (names_of[i] == "" && count > 0) {
            sub(/\r$/, "", first_line); gsub(/"/, "", first_line)
            if (delimiters[i] == "\\t") delimiters[i] = "\t"
            n = split(first_line, columns, delimiters[i])
            for (c = 1; c <= n; c++) defined[trimmed(columns[c])] = 1
        } else if (names_of[i] == "") unknown_names = 1
    }
    # Where the head of a file that cannot be read has the names, nobody knows them.
    for (i = 1; i <= used_count && !unknown_names; i++) if (!is_defined(uses[i]))
        print "the variable '" uses[i] "': nothing in it defines ${" uses[i] "}, neither a CSV Data Set nor an extractor nor a list of variables"
}

# Says what a plan of JMeter's asks for, one thing a line:
#
#   property NAME   has no default, and nobody gives it
#   file NAME       is the file of a CSV Data Set, as far as its name can be known
#   variable NAME   is used, and its name stands nowhere else in the plan
#
#   GIVEN='name=value' awk -f lacking.awk plan.jmx      GIVEN: the properties that JMeter will be given, one a line
#
# It reads the plan as JMeter writes it. What is switched off counts for nothing. Scripts and included plans may define
# any variable: where there are some, nothing is said of variables.

BEGIN {
    RS = "<"
    n = split(ENVIRON["GIVEN"], lines, "\n")
    for (i = 1; i <= n; i++) if ((at = index(lines[i], "=")) > 1) property[substr(lines[i], 1, at - 1)] = substr(lines[i], at + 1)
}
function decoded(text) {
    gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
    gsub(/&#x?[0-9a-fA-F]+;|[ \t\r\n]+/, " ", text)
    gsub(/&amp;/, "\\&", text)
    sub(/^ /, "", text); sub(/ $/, "", text)
    return text
}
# With the properties and variables that are known put in; empty where one is not. A value may name itself: then it has
# no end.
function expanded(text,    steps, name, parts, n, value) {
    while (match(text, /\$\{[^${}]*\}/)) {
        name = substr(text, RSTART + 2, RLENGTH - 3)
        if (++steps > 50) return ""
        if (name ~ /^__(P|property)\([^()]*\)$/) {
            n = split(name, parts, /[(,)]/)
            name = parts[2]; value = parts[n - 1]
            if (name in property) value = property[name]
            else if (n < 4 || name in set_in_plan) return ""
        } else if (name in literal) value = literal[name]
        else return ""
        text = substr(text, 1, RSTART - 1) value substr(text, RSTART + RLENGTH)
    }
    return text
}
function note_words(text,    words, n, i) {
    n = split(text, words, /[][ \t,;:"'(){}<>=|\/\\+*?&!$@#]+/)
    for (i = 1; i <= n; i++) word[words[i]] = 1
}
function first_argument(call) { sub(/^[^(]*\( */, "", call); sub(/[ ,)].*$/, "", call); return call }
# What `text` asks for, `${__P(name)}` and `${name}`, and what it defines. It is split once: any length takes its time.
function look_at(text, is_script, may_define,    parts, n, i, name) {
    n = split(text, parts, /props\.(put|setProperty)\( *["']/)
    for (i = 2; i <= n; i++) { name = parts[i]; sub(/["'].*$/, "", name); set_in_plan[name] = 1 }
    if (is_script && text ~ /vars/) any_variable = 1
    # A function may store what it finds: the name is its last argument.
    name = text; gsub(/\$\{__(P|property)\(/, "", name)
    if (name ~ /\$\{__/) may_define = 1
    n = split(text, parts, /\$\{/)
    if (may_define) note_words(parts[1])
    for (i = 2; i <= n; i++) {
        name = parts[i]
        if (name ~ /^__setProperty\(/) set_in_plan[first_argument(name)] = 1
        # All but the name of a variable.
        if (may_define) { sub(/^[^_(){}][^(){}]*\}/, "", name); note_words(name); name = parts[i] }
        if (is_script || parts[i - 1] ~ /\\$/) continue
        if (name ~ /^__P\([^(),{}]+\)/ || name ~ /^__property\([^(),{}]+(,[^(),{}]*)?\)/) {
            wanted[first_argument(name)] = 1
        } else if (name ~ /^[^(){}<>"',; $]+\}/ && name !~ /^__/) {
            sub(/\}.*$/, "", name); used[name] = 1
        }
    }
}

NR == 1 { next }
in_comment { if (index($0, "-->")) in_comment = 0; next }
/^!--/ { if (!index($0, "-->")) in_comment = 1; next }
/^[?!]/ { next }
{
    gt = index($0, ">")
    head = substr($0, 1, gt - 1); value = decoded(substr($0, gt + 1))
    closing = head ~ /^\//; empty = head ~ /\/$/
    tag = head; sub(/^\//, "", tag); sub(/[ \t\r\n\/].*$/, "", tag)
}
# An element is followed by the tree of what stands below it, which is switched off with it.
tag == "hashTree" {
    if (!empty) level += closing ? -1 : 1
    if (level < off) off = 0
    next
}
tag !~ /Prop$/ && !closing {
    if (!off || level == off) off = head ~ /[ \t]enabled="false"/ ? level : 0
    if (!off) element = tag
    if (!off && tag == "IncludeController") any_variable = 1
}
off || closing || tag !~ /Prop$/ || tag ~ /^(collection|element)Prop$/ || !match(head, /[ \t]name="[^"]*"/) { next }
{
    name = substr(head, RSTART + 7, RLENGTH - 8)
    if (name == "TestPlan.comments") next
    if (element == "CSVDataSet" && name == "filename") files[++file_count] = value
    # Its names stand in the head of the file.
    if (element == "CSVDataSet" && name == "variableNames" && value == "") any_variable = 1
    if (element ~ /JSR223|BeanShell|BSF/ && name ~ /filename$/ && value != "") any_variable = 1
    if (name == "Argument.name") argument = value
    if (name == "Argument.value" && (element == "Arguments" || element == "TestPlan")) literal[argument] = value
    look_at(value, name == "script" || name ~ /\.(query|script)$/, element !~ /^(HTTPSampler|HeaderManager)|Assertion$/)
}
END {
    for (name in wanted) if (!(name in property) && !(name in set_in_plan)) print "property " name
    for (i = 1; i <= file_count; i++) if ((file = expanded(files[i])) != "") print "file " file
    for (name in used) {
        # Of an extractor: x_1, x_matchNr, x_ALL, x_g1, x_1_g1; of a split: x_n, x_#.
        base = name
        sub(/(_[0-9]+)?(_g[0-9]*|_matchNr|_ALL|_n|_#)?$/, "", base)
        # JMeter's own.
        if (name ~ /^(__jm__|COOKIE_|JMeterThread\.|(TEST)?START\.)/ || any_variable) continue
        if (!(name in word) && !(base in word)) print "variable " name
    }
}

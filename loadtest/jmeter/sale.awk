# Judges the samples of our plans: what the buyers were told, held against the stock before and after.
#
#   awk -v name=rush -v users=… -v clicks=… -v before=… -v after=… -f sale.awk samples.jtl

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

# What hm-dianping says, in each wording that its copies have.
BEGIN {
    code_of["库存不足"] = "sold_out"
    code_of["用户已经购买过一次"] = code_of["禁止重复下单"] = code_of["一人一单"] = "already_bought"
    code_of["不允许重复下单"] = "order_in_progress"
    code_of["秒杀尚未开始"] = "sale_not_started"; code_of["秒杀已经结束"] = "sale_ended"
    code_of["秒杀已暂停"] = "sale_paused"; code_of["优惠券不存在"] = "voucher_not_found"
    ordered = dialect == "hmdp" ? 200 : 201
}
{
    status = field[at["responseCode"]]; code = field[at["code"]]
    if (dialect == "hmdp") { sub(/(!|！)+$/, "", code); if (code in code_of) code = code_of[code] }
    if (status == ordered && code == "none") {
        code = "ordered"
        if (++orders_of[field[at["user_id"]]] > 1) twice++
    } else if (status !~ /^[0-9]+$/) code = "no_answer"
    else if (code == "none") code = "unknown_answer"
    if (!(code in times)) list[++codes] = code
    times[code]++
    if (code != "ordered" && code != "already_bought" && code != "order_in_progress" &&
        (code != "sold_out" || name == "double_click")) unexpected++
    elapsed[samples] = field[at["elapsed"]] + 0
    begin = field[at["timeStamp"]] + 0; end = begin + elapsed[samples]
    if (!first || begin < first) first = begin
    if (end > last) last = end
}
function exact(name, value, wanted, meaning) { check(name, value, "=" wanted, value == wanted, meaning) }
function sift(i, n,    child, swap) {
    while ((child = 2 * i) <= n) {
        if (child < n && elapsed[child + 1] > elapsed[child]) child++
        if (elapsed[i] >= elapsed[child]) return
        swap = elapsed[i]; elapsed[i] = elapsed[child]; elapsed[child] = swap
        i = child
    }
}
function sort(n,    i, swap) {
    for (i = int(n / 2); i >= 1; i--) sift(i, n)
    for (i = n; i > 1; i--) { swap = elapsed[1]; elapsed[1] = elapsed[i]; elapsed[i] = swap; sift(1, i - 1) }
}
function percentile(p,    i) {
    i = int(samples * p / 100)
    if (i < samples * p / 100) i++
    return elapsed[i < 1 ? 1 : i]
}
END {
    order = "ordered sold_out already_bought order_in_progress"
    n = split(order, known, " ")
    for (i = 1; i <= n; i++) if (known[i] in times) {
        printf "  %-26s %10d\n", known[i], times[known[i]]; shown[known[i]] = 1
    }
    for (i = 1; i <= codes; i++) if (!(list[i] in shown)) printf "  %-26s %10d\n", list[i], times[list[i]]
    sort(samples)
    printf "\n  latency ms   p50 %d   p95 %d   p99 %d   max %d   in %.1f s\n\n",
        percentile(50), percentile(95), percentile(99), elapsed[samples], (last - first) / 1000

    orders = times["ordered"] + 0
    check("orders_beyond_stock", orders - before, "<=0", orders <= before,
        "orders confirmed, less what there was: above zero is an oversell")
    exact("double_sales", twice + 0, 0, "orders confirmed to one user beyond the first")
    exact("unbalanced", orders - (before - after), 0, "orders confirmed, less what went from the stock")
    if (name != "double_click" && users >= before)
        exact("left_unsold", after > 0 ? after : 0, 0, "vouchers left although enough people came")
    if (users <= before)
        exact("sold_out_too_early", times["sold_out"] + 0, 0, "\"sold out\" although there was enough for everybody")
    if (name == "double_click") exact("ordered", orders, users, "orders confirmed: one a user")
    if (expect != "") exact("ordered", orders, expect, "orders confirmed, as EXPECT_ORDERS has it")
    if (rung != "") {
        exact("audit_oversold", audit_oversold, 0, "audit: orders in the database beyond the stock")
        exact("audit_duplicates", audit_duplicates, 0, "audit: orders in the database beyond one a user")
        exact("audit_lost", orders - audit_orders, 0, "orders confirmed, less those in the database")
    }
    exact("unexpected", unexpected + 0, 0, "answers with a code that has no place here")
    exact("failed_samples", failed + 0, 0, "samples that an assertion of the plan did not like")
    exact("samples", samples, users * clicks, "attempts made and answered")
    give_verdict()
}

# Judges the samples of a plan that is not ours: what came back for each of its requests, and whether its own assertions
# held. With the stock of a voucher before and after the run also that.
#
#   awk -v before=100 -v after=0 -v expect=100 -f samples.awk -f foreign.awk samples.jtl

{
    row = field[at["label"]] SUBSEP field[at["responseCode"]]
    if (!(row in times)) rows[++row_count] = row
    times[row]++
    if (field[at["success"]] != "true") failed_of[row]++
    if (field[at["responseCode"]] !~ /^[0-9]+$/) no_answer++
    elapsed = field[at["elapsed"]] + 0
    if (elapsed > slowest) slowest = elapsed
    sum += elapsed
}
END {
    for (i = 1; i <= row_count; i++) {
        split(rows[i], parts, SUBSEP)
        printf "  %-40s %-12s %8d   %d failed\n", substr(parts[1], 1, 40), substr(parts[2], 1, 12),
            times[rows[i]], failed_of[rows[i]]
    }
    printf "\n  latency ms   mean %d   max %d\n\n", samples ? sum / samples : 0, slowest
    check("samples", samples + 0, ">=1", samples >= 1, "requests made")
    check("no_answer", no_answer + 0, "=0", no_answer == 0, "requests without an answer of HTTP")
    check("failed_samples", failed + 0, "=0", failed == 0, "samples that an assertion of the plan did not like")
    if (after != "")
        check("stock_below_zero", after < 0 ? -after : 0, "=0", after >= 0, "vouchers sold that there were not")
    if (expect != "")
        check("ordered", before - after, "=" expect, before - after == expect,
            "what went from the stock, as EXPECT_ORDERS has it")
    give_verdict()
}

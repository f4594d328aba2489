#!/usr/bin/env bash
# Runs a plan of this directory without a window, and judges what came out: JMeter itself exits 0
# whatever it found.
#
#   seckill voucher add --title rush --stock 100
#   seckill tokens --users 1000 --out tokens.csv
#   loadtest/jmeter/run.sh rush                    everyone at once
#   loadtest/jmeter/run.sh double_click            each user clicks many times at once
#   RUNG=r01 loadtest/jmeter/run.sh rush           a rung of the lab, see `seckill lab serve`
#   DIALECT=hmdp loadtest/jmeter/run.sh rush       a server that speaks as hm-dianping does, `seckill play`
#
#   BASE_URL       the server (default http://127.0.0.1:8080; for a rung http://127.0.0.1:8081)
#   DIALECT        what it speaks: seckill, or hmdp as hm-dianping does (default seckill)
#   VOUCHER        what is bought (default: the newest voucher)
#   TOKENS         the file of `seckill tokens`, CSV or one token a line (default tokens.csv)
#   USERS          how many come (default: rush 1000, on a rung 500; double_click 10)
#   CLICKS         of each user in double_click (default 50)
#   RUNG           buy at this rung of `seckill lab serve` instead, with a voucher of its own of
#   STOCK          so many (default 100); there are no tokens then: a user's number is his token
#   EXPECT_ORDERS  exactly so many orders, or the run fails (default: only the other checks)
#   REPORT         where the results go, without an ending (default jmeter-PLAN): .jtl, every
#                  sample; .log, JMeter's own
#   TIME_LIMIT     seconds after which JMeter is stopped (default 180)
#   JMETER_HOME    JMeter 3 or later; without it the `jmeter` in PATH, Debian's 2.13 included
#
# Exit status 0: every check held. 1: one did not (an oversell among them). 2: could not run. The
# users must not hold the voucher yet, and nobody else may buy it meanwhile.
set -euo pipefail
export LC_ALL=C # decimal points, and awk that reads them
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
    printf 'jmeter: %s\n' "$*" >&2
    exit 2
}

# --- What is asked for -----------------------------------------------------------------------

[[ $# -eq 1 && ${1:-} =~ ^(rush|double_click)$ ]] ||
    die 'usage: loadtest/jmeter/run.sh rush|double_click; what is set by variables stands at the top of this file.'
name=$1
plan=$here/$name.jmx
dialect=${DIALECT:-seckill}
[[ $dialect == seckill || $dialect == hmdp ]] || die "DIALECT='$dialect' is neither seckill nor hmdp."

whole() { # whole NAME DEFAULT LEAST: the variable's value, a whole number
    local said=${!1:-$2}
    [[ $said =~ ^(0|[1-9][0-9]{0,8})$ && $said -ge $3 ]] || die "$1='$said' is not a whole number from $3 on."
    echo "$said"
}
rung=${RUNG:-}
case $name in
double_click)
    users=$(whole USERS 10 1)
    clicks=$(whole CLICKS 50 2)
    ;;
*)
    users=$(whole USERS "$([[ -n $rung ]] && echo 500 || echo 1000)" 1)
    clicks=1
    ;;
esac
lab_stock=$(whole STOCK 100 0)
time_limit=$(whole TIME_LIMIT 180 1)
expect_orders=''
[[ -z ${EXPECT_ORDERS:-} ]] || expect_orders=$(whole EXPECT_ORDERS 0 0)
url=${BASE_URL:-http://127.0.0.1:$([[ -n $rung ]] && echo 8081 || echo 8080)}
url=${url%/}
[[ $url =~ ^(https?)://(\[[0-9a-fA-F:]+\]|[^][/?#:[:space:]]+)(:([0-9]+))?$ ]] ||
    die "BASE_URL='$url' is not an address such as http://127.0.0.1:8080."
scheme=${BASH_REMATCH[1]} host=${BASH_REMATCH[2]} port=${BASH_REMATCH[4]}
[[ -n $port ]] || port=$([[ $scheme == https ]] && echo 443 || echo 80)
report=${REPORT:-jmeter-$name}
[[ ${VOUCHER:-0} =~ ^[0-9]+$ ]] || die "VOUCHER='${VOUCHER:-}' is not the number of a voucher."
[[ $rung =~ ^[A-Za-z0-9_]*$ ]] || die "RUNG='$rung' is not the name of a rung."
[[ -z $rung || $dialect == seckill ]] || die 'DIALECT: the rungs of the lab speak seckill alone.'

# As JMeter will get them. An empty value would take the property away: a bare token comes after a space.
properties=(-Jscheme="$scheme" -Jhost="$host" -Jport="$port")
if [[ $dialect == hmdp ]]; then properties+=('-Jtoken_scheme= ' -Jstatuses=200); fi

command -v curl >/dev/null || die 'curl is missing: run scripts/setup.sh loadtest.'
command -v java >/dev/null || [[ -n ${JAVA_HOME:-} ]] || die 'java is missing: run scripts/setup.sh loadtest.'

# Debian's is known by what starts it; it needs help, see debian.bsh.
debian=/usr/share/jmeter
if [[ -n ${JMETER_HOME:-} ]]; then
    [[ -x $JMETER_HOME/bin/jmeter ]] || die "JMETER_HOME='$JMETER_HOME' has no bin/jmeter."
    jmeter=("$JMETER_HOME/bin/jmeter")
elif found=$(command -v jmeter); then
    jmeter=("$found")
    if grep -q "jmeter.home=$debian" "$found"; then
        [[ -e $debian/lib/ext/ApacheJMeter_http.jar ]] || die 'JMeter lacks its HTTP part: run scripts/setup.sh loadtest.'
        [[ -e /usr/share/java/bsh.jar ]] || die 'BeanShell (/usr/share/java/bsh.jar) is missing: run scripts/setup.sh loadtest.'
        jmeter=(java -Xmx1g -Djava.awt.headless=true "-Djmeter.home=$debian"
            -cp "$debian/bin/ApacheJMeter.jar:$debian/lib/ext/*:$debian/lib/jorphan.jar:/usr/share/java/bsh.jar"
            bsh.Interpreter "$here/debian.bsh")
    fi
else
    die 'jmeter is missing: run scripts/setup.sh loadtest, or set JMETER_HOME.'
fi

work=$(mktemp -d)
child=''
clean_up() {
    local status=$?
    trap - EXIT
    trap '' INT TERM
    if [[ -n $child ]]; then
        kill -TERM "$child" 2>/dev/null || true
        for ((tenths = 0; tenths < 50; tenths++)); do
            kill -0 "$child" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$child" 2>/dev/null || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- The sale --------------------------------------------------------------------------------

ask() { # ask CURL'S ARGUMENTS...: sets `status`, 0 when nothing answers, and `answer`
    status=$(curl -sS --globoff --max-time 10 -o "$work/answer" -w '%{http_code}' "$@" 2>"$work/curl.err") || status=0
    answer=$(cat "$work/answer" 2>/dev/null || true)
    [[ $status != 0 && $status != 000 ]] ||
        die "nothing answers at $url ($(tail -n 1 "$work/curl.err")): start it with 'seckill $([[ -n $rung ]] && echo 'lab ')serve', or set BASE_URL."
}
member() { # member NAME: the first such member of `answer` that is a number or a plain string
    sed -En 's/.*[{,]"'"$1"'":("([^"\\]*)"|(-?[0-9]+)).*/\2\3/p' <<<"$answer" | head -n 1
}
add='"seckill voucher add --title T --stock 100" puts one on sale'
if [[ $dialect == hmdp ]]; then add='POST /voucher/seckill puts one on sale'; fi

look() { # look VOUCHER: asks for it, or for the newest one; `answer` is empty where there is none
    if [[ $dialect == seckill ]]; then
        ask "$url/api/vouchers${1:+/}${1:-?limit=1}"
        [[ $status != 404 && $answer != '[]' ]] || answer=''
        return
    fi
    ask "$url/voucher/list/1"
    [[ $status == 200 ]] || die "$url/voucher/list/1 answered $status: is that hm-dianping, or 'seckill play'?"
    # One voucher a line; the first member of each is its number.
    answer=$(sed 's/{"id":/\n{"id":/g' <<<"$answer" | grep -E "^\{\"id\":${1:-[0-9]+}," | grep '"stock":' | sort -t : -k 2,2nr | head -n 1 || true)
}
first_token() { # of the file that JMeter is given
    sed -n '2s/^[0-9]*,\([^,"[:space:]]*\).*/\1/p' "$tokens"
}
greet() { # asks who the first token's user is, and ends when nobody is
    if [[ $dialect == seckill ]]; then ask -H "Authorization: Bearer $(first_token)" "$url/api/me"; else ask -H "authorization: $(first_token)" "$url/user/me"; fi
    [[ $status == 200 ]] || die "$url does not take the first token ($(member code)$([[ $dialect == seckill ]] || echo "$status")): mint them with the same data directory or secret that the server has."
}

if [[ -n $rung ]]; then
    ask -X POST "$url/lab/$rung/vouchers" -d "{\"stock\":$lab_stock}"
    [[ $(member code) != rung_not_found ]] || die "there is no rung '$rung': seckill lab list shows them."
    [[ $status == 201 ]] || die "$url/lab/$rung/vouchers answered $status: is that 'seckill lab serve'?"
    voucher=$(member voucher_id) rung=$(member rung) before=$lab_stock
    path=/lab/$rung/vouchers/$voucher/orders
    what="$rung, voucher $voucher at $url"
    tokens=$work/tokens.csv
    awk -v n="$users" 'BEGIN { print "user_id,token"; for (i = 1; i <= n; i++) print i "," i }' >"$tokens"
else
    tokens=${TOKENS:-tokens.csv}
    how="\"seckill tokens --users $users --out $tokens\" writes it"
    [[ -r $tokens ]] || die "TOKENS: there is no '$tokens': $how."
    if [[ $(head -n 1 "$tokens" | tr -d '\r') != user_id,token ]]; then
        ! grep -qE '[,"[:space:]].*.' <(tr -d '\r' <"$tokens") ||
            die "TOKENS: '$tokens' has neither the head user_id,token nor one token a line: $how."
        awk 'BEGIN { print "user_id,token" } { sub(/\r$/, "") } $0 != "" { print NR "," $0 }' "$tokens" >"$work/tokens.csv"
    fi
    [[ -e $work/tokens.csv ]] && lines_in=$work/tokens.csv || lines_in=$tokens
    lines=$(($(grep -c . "$lines_in") - 1))
    ((lines >= users)) || die "TOKENS: '$tokens' has $lines tokens, and this needs $users: $how."
    tokens=$(cd "$(dirname "$lines_in")" && pwd)/$(basename "$lines_in") # JMeter would look beside the plan
    look "${VOUCHER:-}"
    [[ -n $answer ]] || die "there is no voucher ${VOUCHER:+$VOUCHER }at $url: $add."
    voucher=$(member id) before=$(member stock)
    [[ $status == 200 && -n $voucher && -n $before ]] || die "$url answered $status, and no voucher."
    sale=$([[ $dialect == hmdp ]] && echo on_sale || member status) # hm-dianping does not say
    [[ $sale == on_sale || $sale == sold_out ]] || die "voucher $voucher is not on sale ($sale): $add."
    path=$([[ $dialect == hmdp ]] && echo "/voucher-order/seckill/$voucher" || echo "/api/vouchers/$voucher/orders")
    what="voucher $voucher at $url"
    greet
fi
if [[ $name == double_click ]] && ((before < users)); then
    die "$what has $before left, too few for $users users: set USERS, or put another voucher on sale."
fi

# --- The run ---------------------------------------------------------------------------------

jtl=$report.jtl log=$report.log
rm -f "$jtl" "$log" # JMeter would write behind what is there
printf 'jmeter %s: %s\n' "$name" "$what"
printf '  %s users, %s click(s) each, all at once; stock %s before' "$users" "$clicks" "$before"
properties+=(-Jpath="$path" -Jtokens="$tokens" -Jusers="$users" -Jclicks="$clicks" -Jsample_variables=user_id,code)
save=jmeter.save.saveservice
# In the background and waited for: bash handles no signal while it waits for a program in the
# foreground. Nothing is sent twice: a purchase is not to be bought again by the client.
timeout --signal TERM --kill-after 10 "$time_limit" "${jmeter[@]}" -n -t "$plan" -l "$jtl" -j "$log" \
    "${properties[@]}" -Jhttpclient4.retrycount=0 -Jjmeterengine.nongui.port=0 \
    -Jsampleresult.default.encoding=UTF-8 \
    -J$save.output_format=csv -J$save.print_field_names=true -J$save.default_delimiter=, \
    -J$save.assertion_results_failure_message=false >"$work/jmeter.out" 2>&1 </dev/null &
child=$!
status=0
wait "$child" || status=$?
child=''
if ((status != 0)) || [[ ! -s $jtl ]]; then
    printf '\n'
    tail -n 5 "$work/jmeter.out" >&2
    ((status != 124)) || die "JMeter was not done after $time_limit s: set TIME_LIMIT."
    die "JMeter ended with status $status${log:+; see $log}."
fi

# --- The verdict -----------------------------------------------------------------------------

[[ -n $rung || $dialect == hmdp ]] || sleep 1.2 # what the API shows is at most a second old
if [[ -n $rung ]]; then ask "$url/lab/$rung/vouchers/$voucher"; else look "$voucher"; fi
after=$(member stock)
[[ $status == 200 && -n $after ]] || die "$url answered $status, and no stock of voucher $voucher."
printf ', %s after\n\n' "$after"

awk -v name="$name" -v users="$users" -v clicks="$clicks" -v before="$before" -v after="$after" \
    -v expect="$expect_orders" -v rung="$rung" -v dialect="$dialect" -v audit_orders="$(member orders)" \
    -v audit_oversold="$(member oversold)" -v audit_duplicates="$(member duplicates)" \
    -f "$here/sale.awk" "$jtl" && status=0 || status=1
printf '  %s\n\n' "$jtl"
exit "$status"

# Ends process groups whose owner has ended: reads "+ LEADER SIGNAL" and "- LEADER SIGNAL" until its input does.
# On Linux the leader has its signal from the kernel, and a second one could make it end in disorder: so the
# others get theirs when it is gone (a zombie has no program). Elsewhere all get it here, at once.
while read -r sign leader signal; do
  rest=
  for group in $groups; do
    [ "$group" = "$leader:$signal" ] || rest="$rest $group"
  done
  groups=$rest
  [ "$sign" = - ] || groups="$groups $leader:$signal"
done
for group in $groups; do
  (
    leader=${group%:*} signal=${group#*:} tries=0
    while [ "$signal" != KILL ] && [ $tries -lt 600 ] && [ -e "/proc/$leader/exe" ]; do
      sleep 0.1
      tries=$((tries + 1))
    done
    kill -s "$signal" -- "-$leader" 2>/dev/null
  ) &
done
wait

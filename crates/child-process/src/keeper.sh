# Ends process groups whose owner has ended: reads "+ LEADER SIGNAL" and "- LEADER SIGNAL" until its input does.
while read -r sign leader signal; do
  rest=
  for group in $groups; do
    [ "$group" = "$leader:$signal" ] || rest="$rest $group"
  done
  groups=$rest
  [ "$sign" = - ] || groups="$groups $leader:$signal"
done
for group in $groups; do
  kill -s "${group#*:}" -- "-${group%:*}"
done

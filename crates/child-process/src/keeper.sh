# Ends process groups whose owner has ended: reads "+ NUMBER LEADER SIGNAL" and "- NUMBER" until its input does.
while read -r sign number leader signal; do
  rest=
  for group in $groups; do
    [ "${group%%:*}" = "$number" ] || rest="$rest $group"
  done
  groups=$rest
  [ "$sign" = - ] || groups="$groups $number:$leader:$signal"
done
for group in $groups; do
  group=${group#*:}
  kill -s "${group#*:}" -- "-${group%:*}"
  # What is stopped hears nothing before it goes on.
  kill -s CONT -- "-${group%:*}"
done

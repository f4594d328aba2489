-- Purpose: use up a login code that was right a moment ago. Of several who use it at once, one does.
-- KEYS[1]: the code of one phone, a hash
-- ARGV[1]: the code
-- RETURNS: 1 when it is used up now, 0 when there is none, or another one
if redis.call('hget', KEYS[1], 'code') == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0

-- Purpose: forget the last fencing token of a name that went out of use.
-- KEYS[1]: the last fencing token, a decimal number
-- KEYS[2]: the lock
-- KEYS[3]: for a name without braces only: the name with braces around it, whose token has the same key
-- ARGV[1]: for how many seconds nobody may have used it
-- RETURNS: 1 when it is forgotten, 0 when it has to stay
if redis.call('exists', KEYS[2]) == 1 or (KEYS[3] and redis.call('exists', KEYS[3]) == 1) then
  return 0
end
-- Before GET, which is a use.
local idle = redis.call('object', 'idletime', KEYS[1])
if not idle or idle < tonumber(ARGV[1]) then
  return 0
end
-- The next token has to be larger. It begins at the clock, in microseconds; so one that was never there
-- (Redisson's alone, which begins again at 1) stays, and one that is ahead of the clock.
local token, now = tonumber(redis.call('get', KEYS[1])), redis.call('time')
if not token or token < 1000000000000000 or token >= now[1] * 1000000 + now[2] then
  return 0
end
return redis.call('del', KEYS[1])

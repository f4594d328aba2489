-- Purpose: raise a counter that fell back (Redis came back empty) to what is known used.
-- KEYS[1]: the counter of the day
-- ARGV[1]: the highest number known to be used
-- RETURNS: the counter afterwards; it never falls
local current = tonumber(redis.call('get', KEYS[1]) or '0')
local used = tonumber(ARGV[1])
if current < used then
  redis.call('set', KEYS[1], ARGV[1])
  return used
end
return current

-- Purpose: counts a request in a window, which begins with its first request and ends by itself.
-- KEYS[1]: the counter
-- ARGV[1]: how long a window is, in milliseconds
-- RETURNS: how many requests the window has seen, with this one
local count = redis.call('incr', KEYS[1])
if count == 1 then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return count

-- Purpose: count requests in a fixed window that begins with the first one.
-- KEYS[1]: the counter of one requester
-- ARGV[1]: requests allowed in a window
-- ARGV[2]: the window, in milliseconds
-- RETURNS: 0 when allowed, otherwise the milliseconds until the window ends
local count = redis.call('incr', KEYS[1])
if count == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
if count <= tonumber(ARGV[1]) then
  return 0
end
local left = redis.call('pttl', KEYS[1])
if left < 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return math.max(left, 1)

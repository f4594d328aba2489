-- Purpose: look at, or count, requests in a fixed window that begins with the first one. What is refused is not
-- counted: it writes nothing.
-- KEYS[1]: the counter of one requester
-- ARGV[1]: requests allowed in a window
-- ARGV[2]: the window, in milliseconds
-- ARGV[3]: '1' to count this request, '0' to look only
-- RETURNS: 0 when allowed, otherwise the milliseconds until the window ends
if tonumber(redis.call('get', KEYS[1]) or 0) >= tonumber(ARGV[1]) then
  local left = redis.call('pttl', KEYS[1])
  if left < 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    left = tonumber(ARGV[2])
  end
  return math.max(left, 1)
end
if ARGV[3] == '1' and redis.call('incr', KEYS[1]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0

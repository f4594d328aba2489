-- Purpose: gives a user a place in line, one for good, and looks whether the admission token is spent.
-- KEYS[1]: the line
-- KEYS[2]: the users whose token is spent
-- ARGV[1]: the user
-- RETURNS: the place, from 1; 0 when the token is spent
if redis.call('sismember', KEYS[2], ARGV[1]) == 1 then
  return 0
end
redis.call('zadd', KEYS[1], 'nx', redis.call('zcard', KEYS[1]) + 1, ARGV[1])
return tonumber(redis.call('zscore', KEYS[1], ARGV[1]))

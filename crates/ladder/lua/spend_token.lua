-- Purpose: gives a user a place in line, one for good, and spends the admission token.
-- KEYS[1]: the line
-- KEYS[2]: the users whose token is spent
-- ARGV[1]: the user
-- RETURNS: the place, from 1; 0 when the token was spent before
if redis.call('sadd', KEYS[2], ARGV[1]) == 0 then
  return 0
end
redis.call('zadd', KEYS[1], 'nx', redis.call('zcard', KEYS[1]) + 1, ARGV[1])
return tonumber(redis.call('zscore', KEYS[1], ARGV[1]))

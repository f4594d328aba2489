-- Purpose: takes a lock, or takes it once more, and numbers the grant, all in one step.
-- KEYS[1]: the lock
-- KEYS[2]: the number of the last grant, which never expires
-- ARGV[1]: the owner
-- ARGV[2]: the lease, in milliseconds
-- RETURNS: the fencing token; nil when somebody else has the lock
local token
if redis.call('exists', KEYS[1]) == 0 then
  token = redis.call('incr', KEYS[2])
elseif redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  -- The same holder still, by the same number.
  token = tonumber(redis.call('get', KEYS[2]))
else
  return nil
end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return token

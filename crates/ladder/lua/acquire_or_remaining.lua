-- Purpose: takes a lock, or takes it once more; or says for how long at most somebody else has it.
-- KEYS[1]: the lock
-- ARGV[1]: the owner
-- ARGV[2]: the lease, in milliseconds
-- RETURNS: {the caller's holds, the lease}; {0, milliseconds left} when somebody else has it
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  local holds = redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return {holds, tonumber(ARGV[2])}
end
return {0, redis.call('pttl', KEYS[1])}

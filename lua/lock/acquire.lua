-- Purpose: take the lock, or take it once more, for one owner.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- ARGV[1]: the lease, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- RETURNS: {1, holds} when granted, {0, milliseconds left} when somebody else holds it
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  local holds = redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return {1, holds}
end
return {0, redis.call('pttl', KEYS[1])}

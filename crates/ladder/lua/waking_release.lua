-- Purpose: gives back one hold; the last one frees the lock, and wakes those who wait for it.
-- KEYS[1]: the lock
-- ARGV[1]: the owner
-- ARGV[2]: the lease, in milliseconds, for the holds that are left
-- ARGV[3]: the channel on which waiters listen
-- RETURNS: the holds left; nil when the lock is not the caller's
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local holds = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if holds == 0 then
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[3], '0')
else
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return holds

-- Purpose: gives back one hold, once: sent again, it changes nothing and says what it said before.
-- KEYS[1]: the lock
-- KEYS[2]: what became of this release
-- ARGV[1]: the owner
-- ARGV[2]: the lease, in milliseconds, for the holds that are left
-- ARGV[3]: the channel on which waiters listen
-- ARGV[4]: for how long it is remembered, in milliseconds
-- RETURNS: the holds left; nil when the lock is not the caller's
local done = redis.call('get', KEYS[2])
if done then
  return tonumber(done)
end
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
redis.call('set', KEYS[2], holds, 'px', ARGV[4])
return holds

-- Purpose: give back one hold; the last one frees the lock and wakes the waiters.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: optional, the latch of this very release: sent again, it is not done again
-- ARGV[1]: the lease that a partial release refreshes, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- ARGV[3]: the channel on which waiters listen
-- ARGV[4]: how long the latch is remembered, in milliseconds
-- RETURNS: holds left, or -1 when the owner holds nothing
if KEYS[2] then
  local done = redis.call('get', KEYS[2])
  if done then
    return tonumber(done)
  end
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return -1
end
local holds = redis.call('hincrby', KEYS[1], ARGV[2], -1)
if holds > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
else
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[3], '0')
  holds = 0
end
if KEYS[2] then
  redis.call('set', KEYS[2], holds, 'px', ARGV[4])
end
return holds

-- Purpose: free the lock, whoever holds it and however often, and wake the waiters.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- ARGV[1]: the channel on which waiters listen
-- ARGV[2]: in a cluster only: anything; the release is told as a sharded message, too
-- RETURNS: 1 when somebody held it, 0 when it was free
if redis.call('hlen', KEYS[1]) > 1 then
  -- A hash, and not one that a lock is (see acquire.lua); HLEN itself refuses what is no hash.
  return redis.error_reply('WRONGTYPE a hash, and not a lock of this kind')
end
local freed = redis.call('del', KEYS[1])
if freed == 1 then
  redis.pcall('publish', ARGV[1], '0')
  if ARGV[2] then
    redis.pcall('spublish', ARGV[1], '0')
  end
end
return freed

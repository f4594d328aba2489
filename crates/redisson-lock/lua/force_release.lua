-- Purpose: free the lock, whoever holds it and however often, and wake the waiters.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- ARGV[1]: the channel on which waiters listen
-- ARGV[2]: the holder that is to go; '': whoever holds it
-- ARGV[3]: in a cluster only: anything; the release is told as a sharded message, too
-- RETURNS: 1 when it was freed, 0 when it was free, or another one holds it

-- HLEN refuses what is no hash; a hash is a lock as in inspect.lua.
local holder = redis.call('hlen', KEYS[1]) <= 1 and redis.call('hgetall', KEYS[1])
if not holder
  or (holder[1] and not (holder[1]:match('^[^:]+:%-?%d+$') and holder[2]:match('^[1-9]%d*$'))) then
  return redis.error_reply('WRONGTYPE a hash, and not a lock of this kind')
end
if holder[1] and ARGV[2] ~= '' and holder[1] ~= ARGV[2] then
  return 0
end
local freed = redis.call('del', KEYS[1])
if freed == 1 then
  redis.pcall('publish', ARGV[1], '0')
  if ARGV[3] then
    redis.pcall('spublish', ARGV[1], '0')
  end
end
return freed

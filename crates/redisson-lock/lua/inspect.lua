-- Purpose: say who holds the lock, how often, and for how long yet.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- RETURNS: {milliseconds left or -1 for no end, {owner, holds}}, without the two when free

-- HLEN first: a hash that is no lock may be a large one.
local holder = redis.call('hlen', KEYS[1]) <= 1 and redis.call('hgetall', KEYS[1])
if not holder
  or (holder[1] and not (holder[1]:match('^[^:]+:%-?%d+$') and holder[2]:match('^[1-9]%d*$'))) then
  return redis.error_reply('WRONGTYPE a hash, and not a lock of this kind')
end
return {redis.call('pttl', KEYS[1]), holder}

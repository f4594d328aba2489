-- Purpose: say who holds the lock, how often, and for how long yet, and how many stand in its queue.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: the queue of a fair lock, a list of owners
-- RETURNS: {milliseconds left or -1 for no end, {owner, holds}, waiters}, without the two when free
local holder = redis.call('hgetall', KEYS[1])
if #holder > 2 or (#holder == 2 and not string.match(holder[2], '^[1-9]%d*$')) then
  return redis.error_reply('WRONGTYPE a hash, and not a lock of this kind')
end
-- A user who may not look at queues has no fair locks.
local waiters = redis.pcall('llen', KEYS[2])
return {redis.call('pttl', KEYS[1]), holder, type(waiters) == 'number' and waiters or 0}

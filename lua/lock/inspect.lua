-- Purpose: say who holds the lock, how often, and for how long yet.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- RETURNS: {milliseconds left or -1 for no end, {owner, holds}}, without the two when free
return {redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1])}

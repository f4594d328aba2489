-- Purpose: take the lock, or take it once more, for one owner.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: for an owner who may enter again only: the record of its grants, see release.lua
-- KEYS[3]: for a fenced lock only: the last fencing token, a decimal number
-- ARGV[1]: the lease, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- ARGV[3]: this grant's name in the record
-- ARGV[4]: how long the record outlives the lease, in milliseconds
-- RETURNS: {1, holds, fencing token or ''} when granted, else {0, milliseconds left, ''}
local free = redis.call('exists', KEYS[1]) == 0
if not free and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  -- A lock has one holder. What has more fields is something else: Redisson's read-write lock, a map.
  if redis.call('hlen', KEYS[1]) ~= 1 then
    return redis.error_reply('WRONGTYPE a hash, and not a lock of this kind')
  end
  return {0, redis.call('pttl', KEYS[1]), ''}
end
local token = ''
if KEYS[3] then
  -- Who enters again has the token it entered with: it is still the same holder.
  token = not free and redis.call('hget', KEYS[2], 'token')
  if not token then
    local last = tonumber(redis.call('get', KEYS[3]) or 0)
    if not last or last >= 9007199254740991 then
      return redis.error_reply('WRONGTYPE the last fencing token is no number below 2^53 - 1')
    end
    -- Never below the clock, in microseconds: a counter that was lost, in a failover or
    -- because nobody had used it for long, goes on above where it was.
    local now = redis.call('time')
    token = string.format('%.0f', math.max(last + 1, now[1] * 1000000 + now[2]))
  end
end
if KEYS[2] then
  -- Whoever asked has given up, and its clean-up was here first.
  if redis.call('hexists', KEYS[2], ARGV[3]) == 1 then
    return {0, redis.call('pttl', KEYS[1]), ''}
  end
  if free then
    -- What the owner held before is lost: its guards have nothing to give back.
    redis.call('del', KEYS[2])
    redis.call('hset', KEYS[2], 'anew', 1)
  end
  redis.call('hset', KEYS[2], ARGV[3], 'held')
end
if KEYS[3] then
  redis.call('hset', KEYS[2], 'token', token)
  -- Without an end, also where there was one: Redisson's INCR would begin again at 1.
  redis.call('set', KEYS[3], token)
end
local holds = redis.call('hincrby', KEYS[1], ARGV[2], '1')
-- A short lease within a long one must not shorten it.
if free or redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if KEYS[2] then
  redis.call('pexpire', KEYS[2], redis.call('pttl', KEYS[1]) + ARGV[4])
end
return {1, holds, token}

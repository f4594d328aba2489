-- Purpose: give back one hold; the last one frees the lock, or leaves it held by nobody for a while, and wakes
--   the waiters.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: for an owner who may enter again only: the record of its grants, a hash of
--   grant -> 'held', or the answer to its release; and 'anew' where the first grant is in it
-- ARGV[1]: the lease that a partial release refreshes, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- ARGV[3]: the channel on which waiters listen
-- ARGV[4]: this grant's name in the record
-- ARGV[5]: '1' when the acquire wrote the grant into the record
-- ARGV[6]: how long the record outlives the lease, in milliseconds
-- ARGV[7]: for how long nobody may enter after the last hold, in milliseconds; '0': the lock is freed
-- ARGV[8]: in a cluster only: anything; the release is told as a sharded message, too
-- RETURNS: holds left, or -1 when the owner holds nothing by this grant
if KEYS[2] then
  local state = redis.call('hget', KEYS[2], ARGV[4])
  if state and state ~= 'held' then
    return tonumber(state) -- sent again, and done already
  end
  local held = state == 'held'
  if ARGV[5] ~= '1' then
    held = redis.call('hexists', KEYS[2], 'anew') == 0
  end
  if not held then
    -- Should the acquire still be on its way: it finds this and is not granted.
    redis.call('hset', KEYS[2], ARGV[4], -1)
    redis.call('pexpire', KEYS[2], math.max(redis.call('pttl', KEYS[2]), ARGV[1] + ARGV[6]))
    return -1
  end
end
local holds = redis.call('hget', KEYS[1], ARGV[2])
if not holds then
  return -1
end
holds = holds - 1
local left = tonumber(ARGV[1])
if holds > 0 then
  redis.call('hincrby', KEYS[1], ARGV[2], '-1')
  left = math.max(left, redis.call('pttl', KEYS[1]))
  redis.call('pexpire', KEYS[1], left)
else
  if ARGV[7] == '0' then
    redis.call('del', KEYS[1])
  else
    -- By an owner whom nobody is: neither a release that is sent again nor the owner itself may find a hold.
    redis.call('hset', KEYS[1], (ARGV[2]:gsub(':', ':-')), 1)
    redis.call('hdel', KEYS[1], ARGV[2])
    redis.call('pexpire', KEYS[1], ARGV[7])
  end
  -- Free it is, or for another time than they know, whether this user may tell it or not.
  redis.pcall('publish', ARGV[3], '0')
  if ARGV[8] then
    redis.pcall('spublish', ARGV[3], '0')
  end
  holds = 0
end
if KEYS[2] then
  redis.call('hset', KEYS[2], ARGV[4], holds)
  redis.call('pexpire', KEYS[2], left + ARGV[6])
end
return holds

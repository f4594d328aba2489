-- Purpose: the queue of a fair lock, in the layout of Redisson's RFairLock. A fair script is this, a
--   plain script as the function `plain`, and a part of its own, in this order (src/lock/scripts.rs).
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[#KEYS - 1]: the queue, a list of owners; the first of it is the next to enter
-- KEYS[#KEYS]: until when each of them keeps its place, a sorted set of milliseconds since 1970
-- ARGV[#ARGV - 2]: '1' to join the queue when it is not the owner's turn, or to leave it (`fair.flag`)
-- ARGV[#ARGV - 1]: '1' in a cluster, where messages are sent sharded, too
-- ARGV[#ARGV]: the channel of the lock; with `:<owner>` behind it, that of an owner who waits
-- ARGV[2]: the owner who asks; with force_release.lua, where nobody does, no owner's name
-- RETURNS: nothing by itself

-- luacheck: globals KEYS ARGV
-- luacheck: ignore fair plain

-- As Redisson's fairLockWaitTimeout: what one waiter adds to the places of those behind it, and takes
-- off again when it leaves.
local PLACE = 5 * 60 * 1000
-- Who is told that the lock is free keeps its place for so long, then the next one is told: a waiter
-- that died must not keep the lock free for the whole of PLACE.
local TURN = 5 * 1000
-- The queue of a lock that nobody uses any more is gone so long after the last place in it has ended.
local KEPT = 24 * 60 * 60 * 1000

local fair = {flag = ARGV[#ARGV - 2] == '1'}
local sharded, channel = ARGV[#ARGV - 1] == '1', ARGV[#ARGV]
local queue, places = KEYS[#KEYS - 1], KEYS[#KEYS]
-- The plain script must not take them for its own.
for _ = 1, 3 do
  ARGV[#ARGV] = nil
end
for _ = 1, 2 do
  KEYS[#KEYS] = nil
end
local owner = ARGV[2]
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- How long a waiter keeps its place yet.
function fair.left(waiter)
  local ends = redis.call('zscore', places, waiter)
  return ends and tonumber(ends) - now or 0
end

-- The first in the queue, or false. Who did not keep its place is put out, as Redisson does it, except
-- the one who asks: it lives.
function fair.first()
  while true do
    local waiter = redis.call('lindex', queue, 0)
    if not waiter or waiter == owner or fair.left(waiter) > 0 then
      return waiter
    end
    redis.call('lpop', queue)
    redis.call('zrem', places, waiter)
  end
end

-- Puts the owner at the end of the queue, or lets it keep its place if it is in the queue.
function fair.join()
  local ends = redis.call('zscore', places, owner)
  if not ends then
    local last = redis.call('lindex', queue, -1)
    local before = last and fair.left(last) or math.max(redis.call('pttl', KEYS[1]), 0)
    redis.call('zadd', places, now + before + PLACE, owner)
    redis.call('rpush', queue, owner)
  elseif tonumber(ends) - now < PLACE / 2 then
    -- Redisson's waiters lose their places behind a long hold. One of ours keeps its own, and those
    -- behind it theirs: each place ends later than the one before.
    local before
    for _, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
      if before or waiter == owner then
        before = math.max((before or 0) + PLACE, fair.left(waiter))
        redis.call('zadd', places, now + before, waiter)
      end
    end
    if not before then -- somebody deleted the queue
      redis.call('zadd', places, now + PLACE, owner)
      redis.call('rpush', queue, owner)
    end
  else
    return
  end
  local kept = fair.left(redis.call('lindex', queue, -1)) + KEPT
  redis.call('pexpire', queue, kept)
  redis.call('pexpire', places, kept)
end

-- Takes the owner out of the queue, if it is in it.
function fair.leave()
  if redis.call('zrem', places, owner) == 0 then
    return
  end
  local behind = false
  for _, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
    if behind then
      redis.call('zincrby', places, -PLACE, waiter)
    end
    behind = behind or waiter == owner
  end
  redis.call('lrem', queue, 0, owner)
end

-- Tells the first in the queue that the lock is free, if it is; `unless_told`: and if nobody did yet.
function fair.tell(unless_told)
  local waiter = redis.call('exists', KEYS[1]) == 0 and fair.first()
  if not waiter then
    return
  end
  if fair.left(waiter) > TURN then
    redis.call('zadd', places, now + TURN, waiter)
  elseif unless_told then
    return
  end
  redis.pcall('publish', channel .. ':' .. waiter, '0')
  if sharded then
    redis.pcall('spublish', channel .. ':' .. waiter, '0')
  end
end

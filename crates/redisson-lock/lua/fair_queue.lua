-- Purpose: the queue of a fair lock, in the layout of Redisson's RFairLock. A fair script is this, a
--   plain script as the function `plain`, and a part of its own, in this order (src/scripts.rs).
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[3]: that of the plain script; the lock again where it has none
-- KEYS[4]: the queue, a list of owners; the first of it is the next to enter
-- KEYS[5]: until when each of them keeps its place, a sorted set of milliseconds since 1970
-- KEYS[6]: who was told last that the lock is free, a hash; Redisson has no such key
-- ARGV[#ARGV - 2]: '1' to join the queue when it is not the owner's turn, or to leave it (`fair.flag`)
-- ARGV[#ARGV - 1]: '1' in a cluster, where messages are sent sharded, too
-- ARGV[#ARGV]: the channel of the lock; with `:<owner>` behind it, that of an owner who waits
-- ARGV[2]: the owner who asks; with force_release.lua the holder that is to go, or ''
-- RETURNS: nothing by itself

-- luacheck: globals KEYS ARGV
-- luacheck: ignore fair plain

-- As Redisson's fairLockWaitTimeout: what one waiter adds to the places of those behind it, and takes
-- off again when it leaves.
local PLACE = 5 * 60 * 1000
-- Who is told that the lock is free has so long to enter, then the next one is told: a waiter that died
-- must not keep the lock free for the whole of PLACE. This is no matter of the sorted set: Redisson makes
-- the places of those behind, and how long they sleep, of the first one's.
local TURN = 5 * 1000
-- The queue of a lock that nobody uses any more is gone so long after the last place in it has ended.
local KEPT = 24 * 60 * 60 * 1000

local fair = {flag = ARGV[#ARGV - 2] == '1'}
local sharded, channel = ARGV[#ARGV - 1] == '1', ARGV[#ARGV]
-- The plain script must not take for its own what is not.
for _ = 1, 3 do
  ARGV[#ARGV] = nil
end
if KEYS[3] == KEYS[1] then
  KEYS[3] = nil
end
local owner = ARGV[2]
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- While the lock is held, it is nobody's turn.
if redis.call('exists', KEYS[1]) == 1 then
  redis.pcall('del', KEYS[6]) -- whether this user may look at the queue or not
end

-- How long a waiter keeps its place yet.
function fair.left(waiter)
  local ends = redis.call('zscore', KEYS[5], waiter)
  return ends and tonumber(ends) - now or 0
end

-- How long it is the waiter's turn yet; false: it was not told. One that entered meanwhile, told by
-- Redisson or not, and stands here again, has another place than the one that it had when it was told.
function fair.turn(waiter)
  local last = redis.call('hmget', KEYS[6], 'owner', 'place', 'until')
  if last[1] ~= waiter or last[2] ~= redis.call('zscore', KEYS[5], waiter) then
    return false
  end
  return tonumber(last[3]) - now
end

-- The first in the queue, or false. Who did not keep its place is put out, as Redisson does it, and who
-- did not come when it was its turn, except the one who asks: it lives.
function fair.first()
  while true do
    local waiter = redis.call('lindex', KEYS[4], 0)
    if not waiter or waiter == owner then
      return waiter
    end
    if fair.left(waiter) > 0 and (fair.turn(waiter) or TURN) > 0 then
      return waiter
    end
    redis.call('lpop', KEYS[4])
    redis.call('zrem', KEYS[5], waiter)
  end
end

-- Puts the owner at the end of the queue, or lets it keep its place if it is in the queue.
function fair.join()
  local ends = redis.call('zscore', KEYS[5], owner)
  if not ends then
    local last = redis.call('lindex', KEYS[4], -1)
    local before = last and fair.left(last) or math.max(redis.call('pttl', KEYS[1]), 0)
    redis.call('zadd', KEYS[5], now + before + PLACE, owner)
    redis.call('rpush', KEYS[4], owner)
  else
    -- Redisson's waiters lose their places behind a long hold. One of ours keeps its own, also when each
    -- of those before it takes a place off; and those behind keep theirs: each place ends later than the
    -- one before.
    local behind, is_behind = 0, false
    for _, waiter in ipairs(redis.call('lrange', KEYS[4], 0, -1)) do
      behind = behind + PLACE
      if waiter == owner then
        if tonumber(ends) - now >= behind - PLACE / 2 then
          return
        end
        is_behind = true
      end
      if is_behind then
        behind = math.max(behind, fair.left(waiter))
        redis.call('zadd', KEYS[5], now + behind, waiter)
      end
    end
    if not is_behind then -- somebody deleted the queue
      redis.call('zadd', KEYS[5], now + behind + PLACE, owner)
      redis.call('rpush', KEYS[4], owner)
    end
  end
  local kept = fair.left(redis.call('lindex', KEYS[4], -1)) + KEPT
  redis.call('pexpire', KEYS[4], kept)
  redis.call('pexpire', KEYS[5], kept)
end

-- Takes the owner out of the queue, if it is in it.
function fair.leave()
  if redis.call('zrem', KEYS[5], owner) == 0 then
    return
  end
  local behind = false
  for _, waiter in ipairs(redis.call('lrange', KEYS[4], 0, -1)) do
    if behind then
      redis.call('zincrby', KEYS[5], -PLACE, waiter)
    end
    behind = behind or waiter == owner
  end
  redis.call('lrem', KEYS[4], 0, owner)
end

function fair.wake(waiter)
  redis.pcall('publish', channel .. ':' .. waiter, '0')
  if sharded then
    redis.pcall('spublish', channel .. ':' .. waiter, '0')
  end
end

-- Tells the first in the queue that the lock is free, if it is; `unless_told`: and if nobody did yet.
function fair.tell(unless_told)
  local waiter = redis.call('exists', KEYS[1]) == 0 and fair.first()
  if not waiter or (unless_told and fair.turn(waiter)) then
    return
  end
  local place = redis.call('zscore', KEYS[5], waiter)
  if place then
    redis.call('hset', KEYS[6], 'owner', waiter, 'place', place, 'until', now + TURN)
    redis.call('pexpire', KEYS[6], PLACE)
  end
  fair.wake(waiter)
end

-- Has the first in the queue look how long the lock is held yet, if the owner has left it kept (release.lua).
function fair.look()
  local is_kept = redis.call('hexists', KEYS[1], (owner:gsub(':', ':-'))) == 1
  local waiter = is_kept and redis.call('lindex', KEYS[4], 0)
  if waiter then
    fair.wake(waiter)
  end
end

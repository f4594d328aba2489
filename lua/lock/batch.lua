-- Purpose: many acquires and releases of owners who enter once, in one call: what
--   acquire.lua and release.lua do for such an owner, for each of them.
-- KEYS[number]: each lock, a hash of owner -> holds (Redisson's layout)
-- ARGV[at]: for each, at number * 3 - 2: the owner, `<client uuid>:<number>`
-- ARGV[at + 1]: to take it, the lease in milliseconds; to give it back, '0'
-- ARGV[at + 2]: to give it back, the channel on which waiters listen
-- RETURNS: of each: taken -2, not free PTTL; given back 0 or more, not held -1; no lock -3
local answers = {}
for number = 1, #KEYS do
  local key, at = KEYS[number], number * 3 - 2
  local owner, lease = ARGV[at], ARGV[at + 1]
  if lease ~= '0' and redis.call('exists', key) == 0 then
    redis.call('hset', key, owner, '1')
    redis.call('pexpire', key, lease)
    answers[number] = -2
  else
    -- What is wrong with one is no reason to stop before the others.
    local holds = redis.pcall('hget', key, owner)
    local count = type(holds) == 'string' and tonumber(holds)
    if type(holds) == 'table' or (holds and not count) then
      answers[number] = -3
    elseif lease ~= '0' and holds then
      -- Such an owner enters once: this is the same acquire, sent again.
      redis.call('pexpire', key, lease)
      answers[number] = -2
    elseif lease ~= '0' then
      answers[number] = redis.call('pttl', key)
    elseif not holds then
      answers[number] = -1
    elseif count > 1 then
      answers[number] = count - 1
      redis.call('hset', key, owner, count - 1)
    else
      redis.call('del', key)
      redis.pcall('publish', ARGV[at + 2], '0')
      answers[number] = 0
    end
  end
end
return answers

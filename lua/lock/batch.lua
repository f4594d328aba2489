-- Purpose: many acquires and releases of owners who enter once, in one call: what
--   acquire.lua and release.lua do for such an owner, for each of them.
-- KEYS[1]: the first lock, a hash of owner -> holds (Redisson's layout); the others follow
-- ARGV[1]: of each lock three: the owner, `<client uuid>:<number>`; to take it, the lease in
--   milliseconds, else '0'; to give it back, the channel on which waiters listen, else ''
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
    local holds = redis.pcall('hget', key, owner)
    if type(holds) == 'table' then
      answers[number] = -3 -- and the others are served
    elseif lease ~= '0' then
      answers[number] = redis.call('pttl', key)
    elseif not holds then
      answers[number] = -1
    elseif tonumber(holds) > 1 then
      answers[number] = redis.call('hincrby', key, owner, '-1')
    else
      redis.call('del', key)
      redis.call('publish', ARGV[at + 2], '0')
      answers[number] = 0
    end
  end
end
return answers

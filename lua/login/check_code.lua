-- Purpose: compare what was typed with a login code. Wrong tries count against the address that tries and against
-- the phone. However many others have tried, the first try of an address that asked for the code is looked at.
-- KEYS[1]: the code of one phone, a hash
-- KEYS[2]: the counter of all wrong tries at the codes of this phone
-- KEYS[3]: the counter of the wrong tries that this address made at them
-- ARGV[1]: the code that was typed
-- ARGV[2]: the address that tries
-- ARGV[3]: wrong tries allowed in a window, whoever makes them
-- ARGV[4]: that window, in milliseconds
-- ARGV[5]: wrong tries allowed to one address in a window
-- ARGV[6]: that window, in milliseconds
-- RETURNS: 0: wrong; 1: right; 2: no code; 3: the address, 4: the phone has no tries left; and for how many ms
local code = redis.call('hget', KEYS[1], 'code')
if not code then
  return {2, 0}
end
local tries = tonumber(redis.call('get', KEYS[3]) or 0)
if tries >= tonumber(ARGV[5]) then
  return {3, math.max(redis.call('pttl', KEYS[3]), 1)}
end
local asked = redis.call('hexists', KEYS[1], 'asked:' .. ARGV[2]) == 1
if not (asked and tries == 0) and tonumber(redis.call('get', KEYS[2]) or 0) >= tonumber(ARGV[3]) then
  local wait = redis.call('pttl', KEYS[2])
  if asked then
    wait = math.min(wait, redis.call('pttl', KEYS[3])) -- then it is a first try again
  end
  return {4, math.max(wait, 1)}
end
if code == ARGV[1] then
  return {1, 0}
end
if redis.call('incr', KEYS[2]) == 1 then
  redis.call('pexpire', KEYS[2], ARGV[4])
end
if redis.call('incr', KEYS[3]) == 1 then
  redis.call('pexpire', KEYS[3], ARGV[6])
end
return {0, 0}

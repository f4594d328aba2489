-- Purpose: check a login code once; a right one is used up, so is one guessed at too often.
-- KEYS[1]: the code of one phone, a hash
-- KEYS[2]: the counter of wrong tries at the codes of this phone
-- ARGV[1]: the code that was typed
-- ARGV[2]: how many wrong tries a code survives
-- ARGV[3]: wrong tries allowed in a window, at however many codes
-- ARGV[4]: the window, in milliseconds
-- RETURNS: 1 when it was right, 0 when not; -ms when it was not looked at, until the window ends
if tonumber(redis.call('get', KEYS[2]) or 0) >= tonumber(ARGV[3]) then
  return -math.max(redis.call('pttl', KEYS[2]), 1)
end
local code = redis.call('hget', KEYS[1], 'code')
if not code then
  return 0
end
if code == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
if redis.call('incr', KEYS[2]) == 1 then
  redis.call('pexpire', KEYS[2], ARGV[4])
end
if redis.call('hincrby', KEYS[1], 'tries', 1) >= tonumber(ARGV[2]) then
  redis.call('del', KEYS[1])
end
return 0

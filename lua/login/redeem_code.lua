-- Purpose: check a login code once; a right one is used up, so is one guessed at too often.
-- KEYS[1]: the code of one phone, a hash
-- ARGV[1]: the code that was typed
-- ARGV[2]: how many wrong tries a code survives
-- RETURNS: 1 when it was right, 0 otherwise
local code = redis.call('hget', KEYS[1], 'code')
if not code then
  return 0
end
if code == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
if redis.call('hincrby', KEYS[1], 'tries', 1) >= tonumber(ARGV[2]) then
  redis.call('del', KEYS[1])
end
return 0

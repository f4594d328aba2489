-- Purpose: keep a login code, and who asked for it. One that is good already stays, and so does its end.
-- KEYS[1]: the code of one phone, a hash
-- ARGV[1]: the code to keep where there is none
-- ARGV[2]: how long it is good for, in milliseconds
-- ARGV[3]: the address that asks
-- RETURNS: the code that is good now; and for how many ms
local code = redis.call('hget', KEYS[1], 'code')
if not code then
  code = ARGV[1]
  redis.call('hset', KEYS[1], 'code', code)
  redis.call('pexpire', KEYS[1], ARGV[2])
end
redis.call('hset', KEYS[1], 'asked:' .. ARGV[3], 1)
return {code, math.max(redis.call('pttl', KEYS[1]), 1)}

-- Purpose: takes a token from a bucket, by the time of Redis.
-- KEYS[1]: the bucket
-- ARGV[1]: how many tokens it holds
-- ARGV[2]: how long it takes until one flows in, in milliseconds
-- RETURNS: how many whole tokens are left; -1 when there was none
local bucket = redis.call('hmget', KEYS[1], 'tokens', 'at')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local passed = math.max(0, now - (tonumber(bucket[2]) or now))
local size = tonumber(ARGV[1])
local tokens = math.min(size, (tonumber(bucket[1]) or size) + passed / tonumber(ARGV[2]))
local is_let_in = tokens >= 1
if is_let_in then
  tokens = tokens - 1
end
redis.call('hset', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('pexpire', KEYS[1], size * tonumber(ARGV[2]))
return is_let_in and math.floor(tokens) or -1

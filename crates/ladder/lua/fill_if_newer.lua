-- Purpose: caches a stock, unless a later one is there.
-- KEYS[1]: the cached stock
-- ARGV[1]: the stock
-- ARGV[2]: its version
-- ARGV[3]: how long it is believed, in milliseconds
-- RETURNS: 1 when it was cached, 0 when a later one is there
local known = redis.call('hget', KEYS[1], 'version')
if known and tonumber(known) > tonumber(ARGV[2]) then
  return 0
end
redis.call('hset', KEYS[1], 'stock', ARGV[1], 'version', ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[3])
return 1

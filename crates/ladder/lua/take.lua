-- Purpose: decides a purchase in Redis: takes one from the stock for a buyer who has none.
-- KEYS[1]: the stock
-- KEYS[2]: the set of buyers
-- ARGV[1]: the user
-- RETURNS: 0 when taken, 1 when sold out, 2 when the user has one; nil when the stock is unknown
local stock = redis.call('get', KEYS[1])
if not stock then
  return nil
end
if tonumber(stock) <= 0 then
  return 1
end
if redis.call('sismember', KEYS[2], ARGV[1]) == 1 then
  return 2
end
redis.call('decr', KEYS[1])
redis.call('sadd', KEYS[2], ARGV[1])
return 0

-- Purpose: decides a purchase in Redis, and puts the order into the stream in the same step.
-- KEYS[1]: the stock
-- KEYS[2]: the set of buyers
-- KEYS[3]: the stream
-- ARGV[1]: the user
-- ARGV[2]: the order
-- ARGV[3]: the voucher
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
redis.call('xadd', KEYS[3], '*', 'order', ARGV[2], 'user', ARGV[1], 'voucher', ARGV[3])
return 0

-- Purpose: decides a purchase in Redis, notes that the buyer waits, and puts the order into the
-- stream, all in one step.
-- KEYS[1]: the stock
-- KEYS[2]: what each buyer is told: a hash
-- KEYS[3]: the stream
-- ARGV[1]: the user
-- ARGV[2]: the order
-- ARGV[3]: the voucher
-- RETURNS: 'taken', 'sold_out', or what the buyer was told before; nil when the stock is unknown
local told = redis.call('hget', KEYS[2], ARGV[1])
-- An order that failed has given its voucher back: its buyer may try again.
if told and told ~= 'order_failed' then
  return told
end
local stock = redis.call('get', KEYS[1])
if not stock then
  return nil
end
if tonumber(stock) <= 0 then
  return 'sold_out'
end
redis.call('decr', KEYS[1])
redis.call('hset', KEYS[2], ARGV[1], 'accepted')
redis.call('xadd', KEYS[3], '*', 'order', ARGV[2], 'user', ARGV[1], 'voucher', ARGV[3])
return 'taken'

-- Purpose: ends an entry of the stream: the buyer can be told, and it is not delivered again.
-- A purchase that is given up gives its voucher back, once; written after all, it takes it again.
-- KEYS[1]: the stream
-- KEYS[2]: what each buyer is told: a hash
-- KEYS[3]: the stock
-- ARGV[1]: the group
-- ARGV[2]: the entry
-- ARGV[3]: the user; empty where the entry names none
-- ARGV[4]: what the user is told
-- ARGV[5]: 1 when the voucher is given back, otherwise 0
-- RETURNS: 1 when it was pending, otherwise 0
local pending = redis.call('xack', KEYS[1], ARGV[1], ARGV[2])
redis.call('xdel', KEYS[1], ARGV[2])
if ARGV[3] == '' then
  return pending
end
local told = redis.call('hget', KEYS[2], ARGV[3])
local is_order = tonumber(ARGV[4])
-- An order stays one. Where another consumer has ended the entry, only an order is news.
if is_order or pending == 1 and not tonumber(told or '') then
  redis.call('hset', KEYS[2], ARGV[3], ARGV[4])
end
if redis.call('exists', KEYS[3]) == 1 then
  if pending == 1 and ARGV[5] == '1' then
    redis.call('incr', KEYS[3])
  elseif pending == 0 and is_order and told == 'order_failed' then
    -- Its consumer was only slow, and has sold what was given back.
    redis.call('decr', KEYS[3])
  end
end
return pending

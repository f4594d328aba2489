-- Purpose: ends an entry of the stream: the buyer can be told, and it is not delivered again.
-- A purchase that is given up gives its voucher back, once.
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
-- Where another consumer has ended it, only an order is news: the buyer may have tried again.
if ARGV[3] ~= '' and (pending == 1 or tonumber(ARGV[4])) then
  redis.call('hset', KEYS[2], ARGV[3], ARGV[4])
end
if pending == 1 and ARGV[5] == '1' and redis.call('exists', KEYS[3]) == 1 then
  redis.call('incr', KEYS[3])
end
return pending

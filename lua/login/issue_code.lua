-- Purpose: keep a fresh login code; the number of wrong tries begins again.
-- KEYS[1]: the code of one phone, a hash
-- ARGV[1]: the code
-- ARGV[2]: how long it is good for, in milliseconds
-- RETURNS: 1
redis.call('del', KEYS[1])
redis.call('hset', KEYS[1], 'code', ARGV[1], 'tries', 0)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1

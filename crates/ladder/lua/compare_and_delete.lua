-- Purpose: gives back a lock, if it is still the caller's own.
-- KEYS[1]: the lock
-- ARGV[1]: the owner, as it was set
-- RETURNS: 1 when it was the caller's, otherwise 0
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0

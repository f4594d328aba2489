-- Purpose: lengthens the lease of a lock that is still the caller's own. Never takes it anew.
-- KEYS[1]: the lock
-- ARGV[1]: the owner
-- ARGV[2]: the lease, in milliseconds
-- RETURNS: 1 when renewed; 0 when the lock is not the caller's any more
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])

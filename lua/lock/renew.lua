-- Purpose: lengthen the lease of a lock that is still held. Never creates, never steals.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- ARGV[1]: the lease, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- RETURNS: 1 when renewed, 0 when the owner no longer holds it
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 1
end
return 0

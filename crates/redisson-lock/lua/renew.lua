-- Purpose: lengthen the lease of a lock that is still held. Never creates, never steals.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: for an owner who may enter again only: the record of its grants, see release.lua
-- ARGV[1]: the lease, in milliseconds
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- ARGV[3]: this grant's name in the record
-- ARGV[4]: '1' when the acquire wrote the grant into the record
-- ARGV[5]: how long the record outlives the lease, in milliseconds
-- RETURNS: 1 when renewed, 0 when the owner no longer holds it by this grant
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
if KEYS[2] then
  local held = redis.call('hget', KEYS[2], ARGV[3]) == 'held'
  if ARGV[4] ~= '1' then
    held = redis.call('hexists', KEYS[2], 'anew') == 0
  end
  if not held then
    return 0
  end
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if KEYS[2] then
  redis.call('pexpire', KEYS[2], redis.call('pttl', KEYS[1]) + ARGV[5])
end
return 1

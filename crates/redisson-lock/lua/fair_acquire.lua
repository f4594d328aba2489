-- Purpose: take a fair lock when it is the owner's turn. `fair` is fair_queue.lua, `plain` acquire.lua.
-- KEYS[1]: the lock, a hash of owner -> holds (Redisson's layout)
-- KEYS[2]: the record of the owner's grants, see release.lua
-- ARGV[2]: the owner, `<client uuid>:<number>`
-- ARGV[3]: this grant's name in the record
-- RETURNS: as acquire.lua; the milliseconds are until it may be the owner's turn with nobody telling it

-- luacheck: read globals fair plain
local owner = ARGV[2]
local held = redis.call('exists', KEYS[1]) == 1
local again = held and redis.call('hexists', KEYS[1], owner) == 1
-- Whoever asked has given up, and its clean-up was here first: acquire.lua refuses it, too.
local withdrawn = redis.call('hexists', KEYS[2], ARGV[3]) == 1
local first = fair.first()
if not withdrawn and (again or (not held and (not first or first == owner))) then
  fair.leave()
  return plain()
end
local answer = held and plain() or {0, -1, ''}
if answer.err or withdrawn then
  return answer
end
if fair.flag then
  fair.join()
end
fair.tell(true)
if fair.flag and first and first ~= owner then
  answer[2] = fair.turn(first) or fair.left(first)
end
return answer

-- Purpose: release a fair lock, or leave its queue, or both, and tell the first in the queue if the
--   lock is free then, or held by nobody for a while. `fair` is fair_queue.lua, `plain` release.lua or
--   force_release.lua.
-- RETURNS: as the plain script

-- luacheck: read globals fair plain
if fair.flag then
  fair.leave()
end
local answer = plain()
-- Free it is, whether this user may look at the queue or not.
pcall(fair.tell)
pcall(fair.look)
return answer

-- Purpose: say what stands at a name that is not a lock of ours.
-- KEYS[1]: the name
-- RETURNS: {its type, 'mode' of a read-write lock or '', its value where it is a short string or ''}
local kind = redis.call('type', KEYS[1]).ok
local mode, value = '', ''
if kind == 'hash' then
  mode = redis.call('hget', KEYS[1], 'mode') or ''
elseif kind == 'string' and redis.call('strlen', KEYS[1]) <= 20 then
  value = redis.call('get', KEYS[1])
end
return {kind, mode, value}

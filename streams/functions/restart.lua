-- restart: ask every consumer of a platform to drain and leave, so that its supervisor starts it anew.
-- KEYS  control  hash  how often that was asked, by which request last, and when
-- ARGV  request  names this request: the same one again, after a lost answer, is not another for ten minutes
-- Returns  how often that was asked
local REMEMBERED_MS = 600000 -- who uses one name for ever still restarts something
local asked = call('HMGET', control, 'restarts', 'restart_request', 'restart_ms')
if asked[1] and asked[2] == request and math.abs(now_ms - (tonumber(asked[3] or 0) or 0)) < REMEMBERED_MS then
  return tonumber(asked[1])
end
call('HSET', control, 'restart_request', request, 'restart_ms', now_ms)
return call('HINCRBY', control, 'restarts', 1)

-- restart: ask every consumer of a platform to drain and leave, so that its supervisor starts it anew.
-- KEYS  control  hash  how often that was asked, and by which request last
-- ARGV  request  names this request: the same one again, after a lost answer, is not another
-- Returns  how often that was asked
local asked = call('HMGET', control, 'restarts', 'restart_request')
if asked[1] and asked[2] == request then
  return tonumber(asked[1])
end
call('HSET', control, 'restart_request', request)
return call('HINCRBY', control, 'restarts', 1)

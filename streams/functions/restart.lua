-- restart: ask every consumer of a platform to drain and leave, so that its supervisor starts it again.
-- Script  acting
-- KEYS  control beats
-- ARGV  request  names this request: the same one again, after a lost answer, is not another for ten minutes
--       owners   the consumers that are meant, separated by spaces
-- Returns  how often that was asked | changed: there is another consumer, and none is asked
local REMEMBERED_MS = 600000 -- who uses one name for ever still restarts something
local asked = call('HMGET', keys.control, 'restarts', 'restart_request', 'restart_ms')
if asked[1] and asked[2] == request and math.abs(now_ms - (tonumber(asked[3] or 0) or 0)) < REMEMBERED_MS then
  return tonumber(asked[1])
end
local meant = {}
for owner in string.gmatch(owners, '%S+') do
  meant[owner] = true
end
local counters = call('HGETALL', keys.beats)
for i = 1, #counters, 2 do
  if counters[i + 1] ~= '0' and not meant[counters[i]] then -- 0: its first beat is to come, and it begins to count then
    return 'changed'
  end
end
call('HSET', keys.control, 'restart_request', request, 'restart_ms', now_ms)
return call('HINCRBY', keys.control, 'restarts', 1)

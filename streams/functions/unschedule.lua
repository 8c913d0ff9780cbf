-- unschedule: let a schedule tick no more; its definition stays when it is only paused.
-- Script  acting
-- KEYS  schedules ticks
-- ARGV  name        the schedule's name
--       before      SHA-1 of the definition as its writer read it; empty: whatever it is
--       definition  what stays, JSON; empty: nothing
-- Returns  ok | missing | changed
local known = call('HGET', keys.schedules, name)
if not known then
  call('ZREM', keys.ticks, name)
  return 'missing'
end
if known ~= definition and before ~= '' and redis.sha1hex(known) ~= before then
  return 'changed'
end
call('ZREM', keys.ticks, name)
if definition == '' then
  call('HDEL', keys.schedules, name)
else
  call('HSET', keys.schedules, name, definition)
end
return 'ok'

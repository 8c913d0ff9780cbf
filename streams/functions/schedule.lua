-- schedule: keep a schedule, new or changed, and say when its next tick is.
-- Script  scheduling
-- KEYS  schedules ticks audit
-- ARGV  name        the schedule's name
--       before      SHA-1 of the definition it replaces, as its writer read it; empty: there was none
--       definition  JSON
--       next_ms     its next tick; empty: it begins paused
--       keep        1: a tick that is set already stays, because the times have not changed
--       act         what was asked for, if that is to be kept
--       said        who asked and what else is to be known, JSON
--       token       names the act: one that was sent again is kept once
-- Returns  ok | again | changed
local known = call('HGET', keys.schedules, name)
if known ~= definition and (known and redis.sha1hex(known) or '') ~= before then
  return 'changed'
end
local set
if next_ms == '' then
  set = call('ZREM', keys.ticks, name)
elseif keep == '1' then
  set = call('ZADD', keys.ticks, 'NX', next_ms, name)
else
  set = call('ZADD', keys.ticks, 'CH', next_ms, name)
end
if known == definition and set == 0 then
  return 'again'
end
call('HSET', keys.schedules, name, definition)
if act ~= '' then
  call('XADD', keys.audit, 'MAXLEN', '~', 1000, '*', 'act', act, 'job', '', 'said', said, 'token', token) -- as `note` does
end
return 'ok'

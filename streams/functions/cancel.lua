-- cancel: end a job that nobody runs yet.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history
--       front            zset    the job leaves it
--       ended_cancelled  zset    cancelled jobs by time, for retention
--       events           stream  the live feed
-- ARGV  key   the job's key
--       more  the end of the event, JSON members with a leading comma, or empty
-- Returns  ok | again | running | ended | missing
local field = call('HMGET', record, 'state', 'seq', 'entry', 'band', 'attempt')
local state = field[1]
if not state then
  return 'missing'
end
if state ~= 'waiting' then
  return state == 'cancelled' and 'again' or state == 'running' and 'running' or 'ended'
end
local job = { seq = field[2] or 1, entry = field[3], band = field[4] or 'normal' }
finish(record, key, job, 'cancelled', body(field[5], 'cancelled', nil, more))
call('ZREM', front, key)
return 'ok'

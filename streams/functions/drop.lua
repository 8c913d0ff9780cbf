-- drop: remove every key of one failed or cancelled job now.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history
--       args             string  the job's args
--       steps            hash    what its steps gave
--       ended_failed     zset    the job leaves it
--       ended_errors     zset    the job leaves it
--       ended_cancelled  zset    the job leaves it
--       ended_kept       zset    the job leaves it
--       alarms           zset    the job leaves it
-- ARGV  key  the job's key
-- Returns  ok | missing | waiting | delayed | running | completed
local field = call('HMGET', record, 'state', 'dedupe')
local state = field[1]
if not state then
  return 'missing'
end
if state ~= 'failed' and state ~= 'cancelled' then
  return state
end
if field[2] and call('GET', key_of('dedupe', field[2])) == key then
  call('DEL', key_of('dedupe', field[2]))
end
ends.leave_failed(key)
call('UNLINK', record, log, args, steps)
call('ZREM', ended_cancelled, key)
call('ZREM', ended_kept, key)
call('ZREM', alarms, '!' .. key)
return 'ok'

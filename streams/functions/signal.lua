-- signal: keep what a job awaits, or will await, under a name; the first one counts, and a job that awaits it goes on.
-- Script  acting
-- Uses  places
-- KEYS  record signals
-- ARGV  key   the job's key
--       name  of the signal
--       data  what it says, JSON
--       most  how many signals a job may have
-- Returns  delivered | kept | again | full | missing | completed | failed | cancelled
local state, job = places.standing(record)
if not state then
  return 'missing'
end
if state == 'completed' or state == 'failed' or state == 'cancelled' then
  return state
end
local kept = call('HGET', signals, name)
if kept then
  call('HSET', signals, name, kept) -- for a WAIT behind this call, as in `lease.own`
  return 'again'
end
if call('HLEN', signals) >= tonumber(most) then
  return 'full'
end
call('HSET', signals, name, data)
if state == 'awaiting' and match(job.awaits or '', '^signal (%S+) ') == name then
  places.go_on(record, key, job)
  return 'delivered'
end
return 'kept'

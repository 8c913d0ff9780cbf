-- checkpoint: keep a value of a running attempt under a name, instead of the one before.
-- Script  settling
-- Uses  lease
-- KEYS  record steps
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       most   bytes that the job's steps may have in all, names and values
--       name   the name, of which no step is
--       value  JSON
-- Returns  saved | lost | cancelled | full
local job, refused = lease.at_work(record, key, nonce)
if not job then
  return refused
end
local before = call('HEXISTS', steps, name) == 1 and #name + call('HSTRLEN', steps, name) or 0
local bytes = (call('HGET', record, 'step_bytes') or 0) - before + #name + #value
if bytes > tonumber(most) then
  return 'full'
end
call('HSET', steps, name, value)
call('HSET', record, 'step_bytes', format('%d', bytes))
return 'saved'

-- save: keep the result of a step of a running attempt; the first one counts.
-- Script  settling
-- Uses  lease
-- KEYS  record steps
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       most   bytes that the job's steps may have in all, names and values
--       name   the step
--       value  what it gave, JSON
-- Returns  saved | again | lost | cancelled | full
local job, refused = lease.at_work(record, key, nonce)
if not job then
  return refused
end
if call('HEXISTS', steps, name) == 1 then
  call('HSET', record, 'nonce', nonce) -- for a WAIT behind this call, as in `lease.own`
  return 'again'
end
local bytes = (call('HGET', record, 'step_bytes') or 0) + #name + #value
if bytes > tonumber(most) then
  return 'full'
end
call('HSET', steps, name, value)
call('HSET', record, 'step_bytes', format('%d', bytes))
return 'saved'

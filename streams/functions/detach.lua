-- detach: make a live job whose parent is no longer kept independent: its end goes to no other job.
-- Script  acting
-- Uses  lease places
-- KEYS  record
-- ARGV  key     the job's key
--       parent  the id of the parent that is gone
-- Returns  ok | again: it is not a child of that one | missing | completed | failed | cancelled
local state, job = places.standing(record)
if not state then
  return 'missing'
end
if state == 'completed' or state == 'failed' or state == 'cancelled' then
  return state
end
if lease.mark(job.marks, 'parent') ~= parent then
  return 'again'
end
lease.tell_end_to(record, key, nil)
return 'ok'

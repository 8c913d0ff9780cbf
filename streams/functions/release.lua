-- release: hand a running job back unfinished, at no cost and to the front of its priority.
-- Script  settling
-- Uses  ends lease places
-- KEYS  record log
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       max_starts  how often it may be started in all
-- Returns  ok | failed | cancelled | again | lost
local job, refused = lease.own(record, key, nonce, 'waiting')
if not job then
  return refused
end
local answer = ends.obeyed(record, key, job) or ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if not answer then
  places.back_in_line(record, key, job, 'released', lease.mark(job.marks, 'alone'))
end
return answer or 'ok'

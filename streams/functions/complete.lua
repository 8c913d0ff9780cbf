-- complete: end a job with its result; one that was asked to stop ends cancelled.
-- Script  settling
-- Uses  ends lease
-- KEYS  record log
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       event  attempt, status, worker and result, as they are kept
-- Returns  ok | sent <entry>: ok, and this entry of the outbox brings the end to its parent | cancelled | large: its parent cannot keep a result of that size, and nothing changed | again | lost
local job, refused = lease.own(record, key, nonce, 'completed')
if not job then
  return refused
end
local answer = ends.obeyed(record, key, job)
if not answer and #event > NEWS_BYTES and lease.mark(job.marks, 'parent') then
  return 'large'
end
if answer then
  return answer
end
local sent = ends.finish(record, key, job, 'completed', event, log)
return sent and 'sent ' .. sent or 'ok'

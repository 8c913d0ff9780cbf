-- complete: end a job with its result; one that was asked to stop ends cancelled.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history; its last event holds the result
--       leases           hash    the fence; this attempt's lease is given back
--       ended_completed  list    completed jobs in the order of their ends, for retention
--       ended_cancelled  zset    cancelled jobs by time, for retention
--       events           stream  the live feed
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       event  attempt, status, worker and result, as they are kept
-- Returns  ok | cancelled | again | lost
local job, refused = own(record, key, nonce, 'completed')
if not job then
  return refused
end
local answer = obeyed(record, key, job)
if not answer then
  finish(record, key, job, 'completed', event)
end
return answer or 'ok'

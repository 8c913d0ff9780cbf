-- complete: end a job with its result.
-- KEYS  record           hash    the fence and the state of the job
--       log              list    the job's history; its last event holds the result
--       leases           hash    this attempt's lease, given back
--       ended_completed  list    completed jobs in the order of their ends, for retention
--       events           stream  the live feed
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       event  the rest of the event, JSON, with the result
-- Returns  ok | again | lost
local job, refusal = fence(record, nonce, 'completed')
if not job then
  return refusal
end
finish(record, key, job, 'completed', event)
drop(nonce)
return 'ok'

-- fail: end a job with its error.
-- KEYS  record        hash    the state of the job
--       log           list    the job's history; its last event holds the error
--       leases        hash    the fence; this attempt's lease is given back
--       ended_failed  zset    failed jobs by time, for retention
--       events        stream  the live feed
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       event  attempt, status, worker and error, as they are kept
-- Returns  ok | again | lost
local job = fence(key, nonce)
if not job then
  return refusal(record, nonce, 'failed')
end
if not stands(record, nonce) then
  return 'lost'
end
finish(record, key, job, 'failed', event)
drop(nonce)
return 'ok'

-- release: hand a running job back unfinished, at no cost and to the front of its priority.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history
--       leases           hash    the fence; this attempt's lease is given back
--       front_urgent     zset    where the job goes, or one of its three neighbours
--       front_high       zset
--       front_normal     zset
--       front_low        zset
--       suspects         zset    where a job on its last chance goes
--       unfinished       zset    where it keeps its place, on a platform in strict order
--       ended_failed     zset    for a job that was started too often
--       ended_errors     zset    the same by the type of their error
--       ended_cancelled  zset    cancelled jobs by time, for retention
--       events           stream  the live feed
--       control          hash    the other platforms of its lane, where consumers are called too
--       idle             zset    consumers that wait for work, to be called
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       max_starts  how often it may be started in all
-- Returns  ok | failed | cancelled | again | lost
local job, refused = own(record, key, nonce, 'waiting')
if not job then
  return refused
end
local answer = obeyed(record, key, job) or ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if not answer then
  places.back_in_line(record, key, job, 'released', mark(job.marks, 'alone'))
end
return answer or 'ok'

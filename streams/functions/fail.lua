-- fail: an attempt raised: the job is tried again later, or ends with its error.
-- KEYS  record           hash    the state of the job and its failures
--       log              list    the job's history; its last event holds the error
--       leases           hash    the fence; this attempt's lease is given back
--       unfinished       zset    where it keeps its place, on a platform in strict order
--       due              zset    where it rests until it is tried again
--       ended_failed     zset    failed jobs by time, for retention
--       ended_errors     zset    the same by the type of their error
--       ended_cancelled  zset    cancelled jobs by time, for retention
--       events           stream  the live feed
--       idle             zset    consumers that wait for work, to be called
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       attempts    how many attempts may raise before the job ends failed; 0: this was the last
--       max_starts  how often it may be started in all
--       delay_ms    the pause before the next attempt
--       order       block | skip | strict: whether those behind it in its order wait meanwhile
--       more        the error and what else the event says, JSON members with a leading comma
-- Returns  retrying | failed | cancelled | again | lost
local job, refused = own(record, key, nonce, 'failed', 'delayed')
if not job then
  return refused
end
local failures = (call('HGET', record, 'failures') or 0) + 1
local answer = obeyed(record, key, job)
if not answer and failures < tonumber(attempts) and not ends.worn_out(record, job, max_starts)
  and entries.can_go_on(key, job) then
  answer = 'retrying'
  local until_ms = now_ms + delay_ms
  places.rest(record, key, job, format('%.0f', until_ms), body(job.attempt, answer, job.owner,
    ',"retryAt":"' .. iso(until_ms) .. '"' .. more), order == 'skip', delay_ms)
elseif not answer then
  answer = 'failed'
  finish(record, key, job, answer, body(job.attempt, answer, job.owner, more))
end
call('HSET', record, 'failures', failures)
return answer

-- fail: an attempt raised: the job is tried again later, or ends with its error.
-- Script  settling
-- Uses  ends entries history lease places
-- KEYS  record log
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       attempts    how many attempts may raise before the job ends failed; 0: this was the last
--       max_starts  how often it may be started in all
--       delay_ms    the pause before the next attempt
--       order       block | skip | strict: whether those behind it in its order wait meanwhile
--       more        the error and what else the event says, JSON members with a leading comma
-- Returns  retrying | failed | cancelled | again | lost
local job, refused = lease.own(record, key, nonce, 'failed', 'delayed')
if not job then
  return refused
end
local failures = (call('HGET', record, 'failures') or 0) + 1
local answer = ends.obeyed(record, key, job)
if not answer and failures < tonumber(attempts) and not ends.worn_out(record, job, max_starts)
  and entries.can_go_on(key, job) then
  answer = 'retrying'
  local until_ms = now_ms + delay_ms
  places.rest(record, key, job, format('%.0f', until_ms), history.body(job.attempt, answer, job.owner,
    ',"retryAt":"' .. history.iso(until_ms) .. '"' .. more), order == 'skip', delay_ms)
elseif not answer then
  answer = 'failed'
  ends.finish(record, key, job, answer, history.body(job.attempt, answer, job.owner, more))
end
call('HSET', record, 'failures', failures)
return answer

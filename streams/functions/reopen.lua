-- reopen: give a failed or cancelled job another life: its budgets are new, its history stays.
-- Script  acting
-- Uses  entries history lease places retention
-- KEYS  record log args jobs
-- ARGV  key   the job's key
--       more  who asked, JSON members with a leading comma, or empty
-- Returns  ok | missing | waiting | delayed | running | completed
local state, job = places.standing(record)
if state ~= 'failed' and state ~= 'cancelled' then
  return state or 'missing'
end
retention.leave(key)
local seq = history.emit(key, job, history.body(job.attempt, 'reopened', nil, more))
local accepted = call('HGET', record, 'accepted') or job.entry
local entry = call('XADD', keys.jobs[job.band], '*', 'id', key)
call('HSET', record, 'state', 'waiting', 'seq', seq, 'entry', entry, 'accepted', accepted, 'nonce', '')
if job.attempt then
  call('HSET', record, 'earlier', job.attempt) -- attempts of the lives before
end
call('HDEL', record, 'ended_ms', 'error', 'failures', 'crashes', 'cancel', 'first_ms', 'started', 'owner')
local order = lease.mark(job.marks, 'order')
if order then
  call('ZADD', key_of('order', order), entries.acceptance(entry), key)
end
local dedupe = lease.mark(job.marks, 'dedupe')
if dedupe then
  call('SET', key_of('dedupe', dedupe), key, 'NX') -- unless another has taken it since
end
ring()
return 'ok'

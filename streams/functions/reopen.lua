-- reopen: give a failed or cancelled job another life: its budgets are new, its history stays.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history
--       args             string  the job's args, kept since its end
--       jobs_urgent      stream  the line of its band, as its three neighbours
--       jobs_high        stream
--       jobs_normal      stream
--       jobs_low         stream
--       ended_failed     zset    the job leaves it
--       ended_errors     zset    the job leaves it
--       ended_cancelled  zset    the job leaves it
--       ended_kept       zset    the job leaves it
--       events           stream  the live feed
--       idle             zset    consumers that wait for work, to be called
-- ARGV  key   the job's key
--       more  who asked, JSON members with a leading comma, or empty
-- Returns  ok | missing | waiting | delayed | running | completed
local state, job = places.standing(record)
if not state then
  return 'missing'
end
if state ~= 'failed' and state ~= 'cancelled' then
  return state
end
ends.leave_failed(key)
local seq = emit(key, job, body(job.attempt, 'reopened', nil, more))
local accepted = call('HGET', record, 'accepted') or job.entry
local entry = call('XADD', jobs[job.band], '*', 'id', key)
call('HSET', record, 'state', 'waiting', 'seq', seq, 'entry', entry, 'accepted', accepted, 'nonce', '')
if job.attempt then
  call('HSET', record, 'earlier', job.attempt) -- attempts of the lives before
end
call('HDEL', record, 'ended_ms', 'error', 'failures', 'crashes', 'cancel', 'first_ms', 'started', 'owner')
call('ZREM', ended_cancelled, key)
call('ZREM', ended_kept, key)
local order = mark(job.marks, 'order')
if order then
  call('ZADD', key_of('order', order), acceptance(entry), key)
end
local dedupe = mark(job.marks, 'dedupe')
if dedupe then
  call('SET', key_of('dedupe', dedupe), key, 'NX') -- unless another has taken it since
end
ring()
return 'ok'

-- requeue: an attempt puts its job back at the end of the line of its priority; not a failure.
-- Script  settling
-- Uses  ends entries history lease places
-- KEYS  record log args jobs
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       max_starts  how often it may be started in all
-- Returns  ok | failed | cancelled | again | lost
local job, refused = lease.own(record, key, nonce, 'waiting')
if not job then
  return refused
end
local answer = ends.obeyed(record, key, job) or ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if answer then
  return answer
end
local line = keys.jobs[job.band]
local found = call('XRANGE', line, job.entry, job.entry)[1]
local payload = found and found[2][4]
local seq = history.emit(key, job, history.body(job.attempt, 'superseded', job.owner, ',"reason":"requeued"'))
local entry = payload and call('XADD', line, '*', 'id', key, 'args', payload) or call('XADD', line, '*', 'id', key)
call('HSETNX', record, 'accepted', job.entry)
call('HSET', record, 'state', 'waiting', 'seq', seq, 'entry', entry)
lease.drop(job)
add(settled, job.band, job.entry)
places.let_go(key, job, true)
local order = lease.mark(job.marks, 'order')
if order then
  call('ZADD', key_of('order', order), entries.acceptance(entry), key)
end
ring()
return 'ok'

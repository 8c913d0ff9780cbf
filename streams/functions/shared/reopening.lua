-- reopening: another life for a job that has ended.
-- Uses  entries flows history lease retention
-- KEYS  jobs awaiting

-- Its budgets are new, its history stays. `child`: it awaits this child, which runs again; else it stands in line.
function reopening.reopen(record, key, job, more, child)
  retention.leave(key)
  local event = history.body(job.attempt, 'reopened', nil, more)
  local seq = history.emit(key, job, event)
  local accepted = call('HGET', record, 'accepted') or job.entry
  local entry = call('XADD', keys.jobs[job.band], '*', 'id', key)
  call('HSET', record, 'state', child and 'awaiting' or 'waiting', 'seq', seq, 'entry', entry, 'accepted', accepted, 'nonce', '')
  if job.attempt then
    call('HSET', record, 'earlier', job.attempt) -- attempts of the lives before
    call('HDEL', key_of('steps', key), SPAWNED) -- so the first attempt after this asks failed children again
  end
  call('HDEL', record, 'ended_ms', 'error', 'failures', 'crashes', 'cancel', 'first_ms', 'started', 'owner', 'awaits', 'until_ms',
    'join', 'wanted', 'join_fails', 'join_failed')
  local order = lease.mark(job.marks, 'order')
  if order then
    call('ZADD', key_of('order', order), entries.acceptance(entry), key)
  end
  local dedupe = lease.mark(job.marks, 'dedupe')
  if dedupe then
    call('SET', key_of('dedupe', dedupe), key, 'NX') -- unless another has taken it since
  end
  if child then
    call('HSET', record, 'awaits', 'join', 'join', '0', 'wanted', '1', 'join_fails', '1')
    call('ZADD', keys.awaiting, now_ms, key)
    entries.hold_by_force(job.band, entry)
  else
    ring()
  end
  if lease.mark(job.marks, 'parent') then
    flows.tell_parent(key, job, event)
  end
end

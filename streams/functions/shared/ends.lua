-- ends: the end of a job, and what brings it about before its handler does.
-- Uses  entries flows history lease places retention
-- KEYS  ended_kept

-- The one end of a job: state, event, entry, lease and retention in one fact. Answers the entry of the outbox that tells its
-- parent, if there is one.
function ends.finish(record, key, job, state, event, log)
  local seq = history.emit(key, job, event, log)
  call('HSET', record, 'state', state, 'ended_ms', now_ms)
  lease.drop(job)
  if state ~= 'completed' then
    retention.keep(record, key, job, state, event, seq)
    if state == 'cancelled' then
      flows.cancel_children(key)
    end
  end
  add(settled, job.band, job.entry)
  local kept, sent
  if #job.marks > 0 then
    kept, sent = ends.heed_marks(key, job, event)
  end
  if state == 'completed' and not kept then -- by far the most: a list keeps the order of their ends at a fifth of the cost
    completed[#completed + 1] = key
  end
  return sent
end

-- The job was asked to stop: however its attempt ends, this is the job's end.
function ends.obeyed(record, key, job)
  if #job.marks > 0 and lease.asked_to_stop(job.marks) then
    local more = call('HGET', record, 'cancel') or ''
    ends.finish(record, key, job, 'cancelled', history.body(job.attempt, 'cancelled', job.owner, more))
    return 'cancelled'
  end
end

-- The end of a job with marks: its parent hears of it, and what they hold is given back. Answers whether the job is kept for a time of its own,
-- and the entry of the outbox.
function ends.heed_marks(key, job, event)
  local sent = lease.mark(job.marks, 'parent') and flows.tell_parent(key, job, event)
  local keep, dedupe = lease.mark(job.marks, 'keep'), lease.mark(job.marks, 'dedupe')
  if dedupe then
    retention.free_dedupe(dedupe, key)
  end
  places.let_go(key, job, true)
  if keep then
    call('ZADD', keys.ended_kept, now_ms + keep * 1000, key)
  end
  return keep, sent
end

-- The store itself fails a job.
function ends.fail(record, key, job, reason, error_type, message, more)
  ends.finish(record, key, job, 'failed', history.body(job.attempt, 'failed', job.owner, format(
    ',"reason":"%s"%s,"error":{"type":"%s","message":"%s"}', reason, more or '', error_type, message)))
  return 'failed'
end

-- A job that is to go on, but cannot, ends failed.
function ends.stranded(record, key, job)
  return not entries.can_go_on(key, job) and ends.fail(record, key, job, 'entry', 'EntryLost',
    'its entry was deleted from the stream by hand, and its args with it')
end

-- Whether a job was started as often as it may be; one that was reopened counts from there on.
function ends.worn_out(record, job, max_starts)
  max_starts = tonumber(max_starts)
  return tonumber(job.attempt) >= max_starts and job.attempt - (call('HGET', record, 'earlier') or 0) >= max_starts
end

-- A job that was started too often never comes back: it would circle for ever.
function ends.circles(record, key, job, max_starts)
  return ends.worn_out(record, job, max_starts) and ends.fail(record, key, job, 'starts', 'TooManyStarts',
    'it was started ' .. job.attempt .. ' times and never ended')
end

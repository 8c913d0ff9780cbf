-- cancel: end a job that nobody runs, or ask the attempt that runs it to stop: from then on it can only end cancelled.
-- KEYS  record           hash    the state of the job
--       log              list    the job's history
--       leases           hash    the attempt that is asked to stop
--       front_urgent     zset    the job leaves it, as its three neighbours
--       front_high       zset
--       front_normal     zset
--       front_low        zset
--       unfinished       zset    the job leaves it
--       suspects         zset    the job leaves it
--       due              zset    the job leaves it
--       ended_cancelled  zset    cancelled jobs by time, for retention
--       events           stream  the live feed
-- ARGV  key   the job's key
--       more  who and why, JSON members with a leading comma, or empty
-- Returns  ok | cancelling | again | completed | failed | missing
local state, job = places.standing(record)
if not state then
  return 'missing'
end
if state == 'running' then
  local nonce = call('HGET', record, 'nonce')
  held[nonce] = held[nonce] or call('HGET', leases, nonce)
  local attempt = fence(key, nonce)
  if not attempt then
    return 'missing'
  end
  if asked_to_stop(attempt.marks) then
    return 'cancelling'
  end
  local seq = emit(key, attempt, body(attempt.attempt, 'cancelling', attempt.owner, more))
  call('HSET', record, 'cancel', more)
  local reported, _, _, rest = glance(key, nonce)
  renew(key, nonce, reported, seq, rest .. STOP)
  return 'cancelling'
end
if state ~= 'waiting' and state ~= 'delayed' then
  return state == 'cancelled' and 'again' or state
end
places.leave(key, job)
finish(record, key, job, 'cancelled', body(job.attempt, 'cancelled', nil, more))
return 'ok'

-- cancel: cancel a job that does not run, or ask its running attempt to stop: from then on it can only end cancelled.
-- Script  acting
-- Uses  ends history lease places
-- KEYS  record log leases
-- ARGV  key   the job's key
--       more  who and why, JSON members with a leading comma, or empty
-- Returns  ok | cancelling | again | completed | failed | missing
local state, job = places.standing(record)
if not state then
  return 'missing'
end
if state == 'running' then
  local nonce = call('HGET', record, 'nonce')
  held[nonce] = held[nonce] or call('HGET', keys.leases, nonce)
  local attempt = lease.fence(key, nonce)
  if not attempt then
    return 'missing'
  end
  if lease.asked_to_stop(attempt.marks) then
    return 'cancelling'
  end
  local seq = history.emit(key, attempt, history.body(attempt.attempt, 'cancelling', attempt.owner, more))
  call('HSET', record, 'cancel', more)
  local reported, _, _, rest = lease.glance(key, nonce)
  lease.renew(key, nonce, reported, seq, rest .. lease.STOP)
  return 'cancelling'
end
if state == 'cancelled' then
  call('HSET', record, 'state', state) -- for a WAIT behind this call, as in `lease.own`
  return 'again'
end
if state ~= 'waiting' and state ~= 'delayed' and state ~= 'awaiting' then
  return state
end
places.leave(key, job)
ends.finish(record, key, job, 'cancelled', history.body(job.attempt, 'cancelled', nil, more))
return 'ok'

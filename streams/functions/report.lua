-- report: show one step of a running attempt, at most once.
-- Script  settling
-- Uses  history lease
-- KEYS  log
-- ARGV  key     the job's key
--       nonce   the fence: refused unless it is the current one
--       number  the attempt's running number of this report: a repeated one was shown before
--       most    events that the job may have before this one
--       event   attempt, status, worker, step and more, as they are kept
-- Returns  shown | again | lost | cancelled | full
local reported, seq, started, rest = lease.glance(key, nonce)
if not reported then
  return 'lost'
end
if number - reported <= 0 then
  touched[nonce] = true -- a write, for a WAIT behind this call, as in `lease.own`
  return 'again'
end
if lease.asked_to_stop(rest) then -- it is asked to stop, and to say nothing more
  return 'cancelled'
end
if #seq >= #most and seq - most >= 0 then
  return 'full'
end
lease.renew(key, nonce, number, history.append(log, key, seq, event, started ~= '-' and history.opening(lease.fence(key, nonce))), rest)
return 'shown'

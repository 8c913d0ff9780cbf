-- report: show steps of a running attempt, each at most once.
-- Script  settling
-- Uses  history lease
-- KEYS  log
-- ARGV  key     the job's key
--       nonce   the fence: refused unless it is the current one
--       number  the attempt's running number of the last of these reports: those that are repeated were shown before
--       most    events that the job may have before each of them
--       events  a line for each report: attempt, status, worker, step and more, as they are kept
-- Returns  shown | again | lost | cancelled | full <how many of them the history has; it has no room for the others>
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
local before = started ~= '-' and history.opening(lease.fence(key, nonce))
if not string.find(events, '\n', 1, true) then
  if #seq >= #most and seq - most >= 0 then
    return 'full 0'
  end
  lease.renew(key, nonce, number, history.append(log, key, seq, events, before), rest)
  return 'shown'
end
local new, count, left = history.lines(events, number - reported, most - seq)
if #new > 0 then
  lease.renew(key, nonce, format('%d', number - left), history.append_all(log, key, seq, new, before), rest)
end
return left > 0 and 'full ' .. count - left or 'shown'

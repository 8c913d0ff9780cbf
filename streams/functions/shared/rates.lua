-- rates: how many jobs may start within a window of time, by the times of the last starts.
-- KEYS  control

-- Whether one more may start within a window, by the times of the last starts; else when. `more` are about to start.
-- Exact: no window of that length ever has more starts.
function rates.may_start(times, most, length_ms, more)
  local nth = tonumber(most) - (more or 0)
  if nth <= 0 then
    return false, now_ms + length_ms
  end
  local oldest = call('LINDEX', times, -nth)
  if not oldest or math.abs(now_ms - oldest) >= tonumber(length_ms) then -- a clock set back must not close it for long
    return true
  end
  return false, math.min(oldest, now_ms) + length_ms
end

-- When a rate lets the next one start; nothing: now. `most` 0: there is no rate.
function rates.closed_until(times, most, length_ms)
  if tonumber(most) > 0 then
    return select(2, rates.may_start(times, most, length_ms))
  end
end

-- How many of `wanted` may start within a window; when those are fewer, also when the next may.
function rates.count_starts(times, most, length_ms, wanted)
  for allowed = 0, wanted - 1 do
    local fine, at = rates.may_start(times, most, length_ms, allowed)
    if not fine then
      return allowed, at
    end
  end
  return wanted
end

function rates.note_starts(times, most, length_ms, count)
  for _ = 1, count do
    call('RPUSH', times, now_ms)
  end
  call('LTRIM', times, -most, -1)
  call('PEXPIRE', times, length_ms)
end

-- Until when the platform is held because a handler found a rate exceeded; after the clock was set back no longer than
-- for the hold's own length.
function rates.held_until()
  local hold = call('HMGET', keys.control, 'held_until_ms', 'held_ms')
  local until_ms, length = tonumber(hold[1] or 0) or 0, tonumber(hold[2] or nil)
  if length and until_ms - now_ms > length then
    until_ms = now_ms + length
    call('HSET', keys.control, 'held_until_ms', format('%.0f', until_ms))
  end
  return until_ms
end

-- How many jobs may start within a window of time, by the times of the last starts.

-- Whether one more may start within a window, by the times of the last starts; else when. `more` are about to start.
-- Exact: no window of that length ever has more starts.
local function may_start(times, most, length_ms, more)
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

-- How many of `wanted` may start within a window; when those are fewer, also when the next may.
local function count_starts(times, most, length_ms, wanted)
  for allowed = 0, wanted - 1 do
    local fine, at = may_start(times, most, length_ms, allowed)
    if not fine then
      return allowed, at
    end
  end
  return wanted
end

local function note_starts(times, most, length_ms, count)
  for _ = 1, count do
    call('RPUSH', times, now_ms)
  end
  call('LTRIM', times, -most, -1)
  call('PEXPIRE', times, length_ms)
end

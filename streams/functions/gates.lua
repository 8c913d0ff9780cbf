-- The gates of a job that a claim has found: its order, and what its limit key allows. After events.lua.
local gates = {}

-- A job whose gate is closed waits beside the line; whatever opens the gate brings it to the front.
function gates.park(band, entry, label, key)
  redis.pcall('XCLAIM', jobs[band], GROUP, FRONT, 0, entry, 'JUSTID')
  if label then
    call('ZADD', prefix .. 'parked:' .. label, acceptance(entry), key)
  end
end

-- Answers whether the job may start, else it was parked; and whether a time was set at which parked jobs may go on.
function gates.admit(band, entry, key, marks, key_overall, key_rate, key_rate_ms)
  local order, limit, alarmed = mark(marks, 'order'), mark(marks, 'limit'), false
  if order then
    local head = call('ZRANGE', prefix .. 'order:' .. order, 0, 0)[1]
    local running = call('HGET', orders, order)
    if (head and head ~= key) or (running and call('HGET', prefix .. 'job:' .. running, 'state') == 'running') then
      gates.park(band, entry)
      if limit then -- it may have been called to a place that it cannot take: another may
        return false, places.call_parked(limit, 1, key_overall, key_rate, key_rate_ms)
      end
      return false
    end
  end
  if limit then
    if tonumber(key_overall) > 0 and tonumber(call('HGET', limits, limit) or 0) >= tonumber(key_overall) then
      gates.park(band, entry, limit, key)
      return false
    end
    if tonumber(key_rate) > 0 then
      local times = prefix .. 'starts:' .. limit
      local fine, at = rates.may_start(times, key_rate, key_rate_ms)
      if not fine then
        gates.park(band, entry, limit, key)
        call('ZADD', alarms, at, '*' .. limit)
        return false, true
      end
      rates.note_starts(times, key_rate, key_rate_ms, 1)
    end
    call('ZREM', prefix .. 'parked:' .. limit, key) -- it may come from the line, if the group was rebuilt
    call('HINCRBY', limits, limit, 1)
    alarmed = places.call_parked(limit, 2, key_overall, key_rate, key_rate_ms) -- two, so that many follow soon when the limit was raised
  end
  if order then
    call('HSET', orders, order, key)
  end
  return true, alarmed
end

-- gates: what a job needs to start: its order, and what its limit key allows. `claim` asks, `line` tells why a job waits.
-- Uses  entries lease places rates
-- Keys  jobs alarms limits orders

-- The job of an order that keeps another one waiting, and whether it runs; nothing: none does.
function gates.before(order, key)
  local running = call('HGET', keys.orders, order)
  if running and call('HGET', key_of('job', running), 'state') == 'running' then
    return running, true
  end
  local head = call('ZRANGE', key_of('order', order), 0, 0)[1]
  return head ~= key and head or nil
end

-- Whether as many jobs of a limit key run as may.
function gates.full(limit, max_running_per_key)
  local most = tonumber(max_running_per_key)
  return most > 0 and tonumber(call('HGET', keys.limits, limit) or 0) >= most
end

-- When the rate of a limit key lets its next job start; nothing: now.
function gates.closed_until(limit, key_rate, key_rate_ms)
  return rates.closed_until(key_of('starts', limit), key_rate, key_rate_ms)
end

-- A job whose gate is closed waits beside the line; whatever opens the gate brings it to the front.
function gates.park(band, entry, label, key)
  redis.pcall('XCLAIM', keys.jobs[band], GROUP, FRONT, 0, entry, 'JUSTID')
  if label then
    call('ZADD', key_of('parked', label), entries.acceptance(entry), key)
  end
end

-- Answers whether the job may start, else it was parked; and whether a time was set at which parked jobs may go on.
function gates.admit(band, entry, key, marks, max_running_per_key, key_rate, key_rate_ms)
  local order, limit, alarmed = lease.mark(marks, 'order'), lease.mark(marks, 'limit'), false
  if order and gates.before(order, key) then
    gates.park(band, entry)
    if limit then -- it may have been called to a place that it cannot take: another may
      return false, places.call_parked(limit, 1, max_running_per_key, key_rate, key_rate_ms)
    end
    return false
  end
  if limit then
    local full, at = gates.full(limit, max_running_per_key), gates.closed_until(limit, key_rate, key_rate_ms)
    if full or at then
      gates.park(band, entry, limit, key)
      if not full then
        call('ZADD', keys.alarms, at, '*' .. limit)
      end
      return false, not full
    end
    if tonumber(key_rate) > 0 then
      rates.note_starts(key_of('starts', limit), key_rate, key_rate_ms, 1)
    end
    call('ZREM', key_of('parked', limit), key) -- it may come from the line, if the group was rebuilt
    call('HINCRBY', keys.limits, limit, 1)
    -- Two, so that many follow soon when the limit was raised.
    alarmed = places.call_parked(limit, 2, max_running_per_key, key_rate, key_rate_ms)
  end
  if order then
    call('HSET', keys.orders, order, key)
  end
  return true, alarmed
end

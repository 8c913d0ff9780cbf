-- gates: what a job needs to start: a slot, its order, and what its limit key allows. `claim` asks, `line` tells why a job
-- waits.
-- Uses  entries lease places rates
-- KEYS  jobs alarms leases limits orders

-- How many more jobs of a platform may run, of `max_running`; those of its lane not counted.
function gates.free_slots(max_running)
  return max_running - call('HLEN', keys.leases)
end

-- How many slots the other platforms of its lane take, and each of them that takes some with its number, in turn.
function gates.taken_in_lane(lane)
  local taken, platforms = 0, {}
  for sibling in string.gmatch(lane, '%S+') do
    local running = call('HLEN', at(sibling, keys.leases))
    if running > 0 then
      taken = taken + running
      platforms[#platforms + 1], platforms[#platforms + 2] = sibling, running
    end
  end
  return taken, platforms
end

-- Whether each of these consumer processes runs as many jobs as it may, in all platforms of its lane. `claim` does not
-- ask: a process sends one nonce for each of its free slots.
function gates.processes_full(owners, max_running_per_process, lane)
  local full = false
  for owner in string.gmatch(owners, '%S+') do
    local running = call('SCARD', holds(owner))
    for sibling in string.gmatch(lane, '%S+') do
      running = running + call('SCARD', at(sibling, holds(owner)))
    end
    full = running >= tonumber(max_running_per_process)
    if not full then
      return false
    end
  end
  return full
end

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

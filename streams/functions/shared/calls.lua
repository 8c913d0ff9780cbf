-- calls: which consumers look for work: what a claim tells of its owner, and when others are called instead.
-- Uses  gates
-- KEYS  jobs due alarms awaiting leases beats idle called control

-- A consumer that claims is not called any more; answers when it was called, if it was.
function calls.come(owner)
  local called_us = call('ZSCORE', keys.called, owner)
  if called_us then
    call('ZREM', keys.called, owner)
  end
  return called_us
end

-- The consumer is not idle any more; answers whether others are.
function calls.others_idle(owner)
  return call('EXISTS', keys.idle) == 1 and (call('ZREM', keys.idle, owner) == 0 or call('EXISTS', keys.idle) == 1)
end

-- How many jobs wait in line: those that have not ended, do not run and do not rest. `taken`: leases not yet written;
-- `plain`: none rests.
function calls.waiting(taken, plain)
  local count = -call('HLEN', keys.leases) - taken
  if not plain then
    count = count - call('ZCARD', keys.due) - call('ZCARD', keys.awaiting)
  end
  for band, line in pairs(keys.jobs) do
    count = count + call('XLEN', line) - (settled[band] and #settled[band] or 0)
  end
  return count
end

-- When something changes by itself. Every such time stands in `due` or `alarms`, where each heart looks once a second.
function calls.next_time()
  local soonest
  for _, times in ipairs({ keys.due, keys.alarms }) do
    local at = tonumber(call('ZRANGE', times, 0, 0, 'WITHSCORES')[2])
    if at and (not soonest or at < soonest) then
      soonest = at
    end
  end
  return soonest
end

-- Beside the hearts one idle consumer keeps the time, so that what is due starts at once. Answers which one did, and
-- whether another than `owner` does.
local function timekeeper(kept, owner, soonest)
  local at, keeper = match(kept or '', '^(%d+) (.+)$')
  local other = keeper and keeper ~= owner and tonumber(at) >= tonumber(now_ms) and (not soonest or tonumber(at) <= soonest)
  return keeper, other
end

-- The consumer waits for work until it is called; answers in how many milliseconds it should look by itself.
function calls.sleep(owner, kept, soonest)
  call('ZADD', keys.idle, now_us, owner)
  local keeper, other = timekeeper(kept, owner, soonest)
  if soonest and not other then
    call('HSET', keys.control, 'timekeeper', format('%.0f', soonest) .. ' ' .. owner)
    return format('%d', math.max(0, soonest - now_ms))
  elseif keeper and not soonest then
    call('HDEL', keys.control, 'timekeeper')
  end
  return ''
end

-- The consumer is to look again at once; if it does not, `wake` calls others.
function calls.come_again(owner)
  call('ZREM', keys.idle, owner)
  call('ZADD', keys.called, now_us, owner)
  return '0'
end

-- The consumer does not look any more: if it kept the time, or no consumer does, another is called to keep it.
function calls.stay_away(owner, kept, soonest)
  local keeper, other = timekeeper(kept, owner, soonest)
  if keeper == owner then
    call('HDEL', keys.control, 'timekeeper')
  end
  if soonest and not other then
    ring()
  end
end

-- The gate of a lane, for a platform that has `free` slots by what it runs itself: how many it may take, and when to look
-- again if it has to wait for its turn. Platforms of a lane take turns: of those that found no slot the one that waits
-- longest is the next, if a consumer of it comes within a moment after a slot came free.
local TURN_MS = 250
function calls.lane_room(lane, free, since_us, free_ms)
  since_us = tonumber(since_us or now_us)
  local fresh = vacated > 0 or (free_ms and math.abs(now_ms - free_ms) < TURN_MS)
  local before, opens = {}, nil
  free = free - gates.taken_in_lane(lane)
  for sibling in string.gmatch(lane, '%S+') do
    if tonumber(call('HGET', at(sibling, keys.control), 'lane_since_us') or since_us) < since_us then
      before[#before + 1] = at(sibling, keys.control)
    end
  end
  if free > 0 and fresh and #before > 0 then
    free, opens = 0, now_ms + TURN_MS
  end
  if free > 0 then
    for _, sibling in ipairs(before) do -- no consumer came for it
      call('HDEL', sibling, 'lane_since_us')
    end
    call('HDEL', keys.control, 'lane_since_us')
  elseif calls.waiting(0) > 0 then
    call('HSETNX', keys.control, 'lane_since_us', now_us)
  end
  return free, opens
end

-- Whether a consumer that does not run alone is to take nothing more until it is empty, for a job on its last chance.
-- Only one of them does, and not for long: a job of hours must not keep others waiting. An empty one takes its place.
local EMPTYING_MS, BETWEEN_MS = 60000, 600000
function calls.empties(owner, company, reserved)
  local since, by = match(reserved or '', '^(%d+) (.+)$')
  local age = since and math.abs(now_ms - since)
  if not by or company == 'none' or age >= BETWEEN_MS or (by ~= owner and call('HEXISTS', keys.beats, by) == 0) then
    call('HSET', keys.control, 'reserved', now_ms .. ' ' .. owner)
    return true
  end
  return by == owner and age < EMPTYING_MS
end

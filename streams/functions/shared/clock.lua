-- clock: a clock that was set back: no wait that has a length lasts longer than that.
-- KEYS  due alarms control schedules ticks
--
-- Times are kept as points of the store's clock, with the length of each wait beside it. While the clock runs forward
-- that costs one look at `control`. When the latest time that was seen lies ahead, the lists of times are walked once, a
-- page in each call, and each wait that would last longer than its length is shortened to it.

local CLOCK_STEP_MS = 1000 -- smaller steps are let pass
local CLOCK_PAGE = 100 -- a millisecond or two
local AFTER = { due = 'alarms', alarms = 'ticks' } -- the order in which the lists are walked

-- Whether the wait was shortened, of each list.
local shorten = {}

function shorten.due(key, at)
  local length = tonumber(call('HGET', key_of('job', key), 'rest_ms') or nil)
  if length and at - now_ms > length then -- a time that was given as such has no length
    call('ZADD', keys.due, 'XX', format('%.0f', now_ms + length), key)
    return true
  end
end

function shorten.alarms(alarm, at)
  local kind, name = match(alarm, '^(.)(.*)$')
  if kind == '^' then
    local length = tonumber(call('HGET', key_of('job', name), 'rest_ms') or nil)
    if length and at - now_ms > length then
      call('ZADD', keys.alarms, 'XX', format('%.0f', now_ms + length), alarm)
      return true
    end
  elseif kind ~= '!' and at > tonumber(now_ms) then -- a rate: a claim knows whether it is still closed
    call('ZADD', keys.alarms, 'XX', now_ms, alarm)
    return true
  end
end

function shorten.ticks(name, at)
  local schedule = cjson.decode(call('HGET', keys.schedules, name) or 'null')
  local every_ms = type(schedule) == 'table' and tonumber(schedule.every_seconds) and schedule.every_seconds * 1000
  if every_ms and at - now_ms > every_ms then
    call('ZADD', keys.ticks, 'XX', format('%.0f', (math.floor(now_ms / every_ms) + 1) * every_ms), name)
    return true
  end
end

-- Notes the time, and shortens waits after the clock was set back; answers whether there are more to look at, and at how
-- many this call has looked.
function clock.mind()
  local seen = call('HMGET', keys.control, 'latest_ms', 'clock_walk')
  local latest, walk = tonumber(seen[1] or nil), seen[2]
  if latest and latest - now_ms > CLOCK_STEP_MS then
    walk = 'due 0'
    call('HSET', keys.control, 'latest_ms', now_ms, 'clock_walk', walk)
  elseif (not latest or now_ms - latest > CLOCK_STEP_MS) and call('EXISTS', keys.due, keys.alarms, keys.ticks) > 0 then
    call('HSET', keys.control, 'latest_ms', now_ms)
  end
  local looked, walked = 0, walk
  while walk and looked < CLOCK_PAGE do
    local list, cursor = match(walk, '^(%l+) (%d+)$')
    local found = redis.pcall('ZSCAN', keys[list], cursor, 'COUNT', CLOCK_PAGE)
    looked = looked + (found[2] and #found[2] / 2 or 0)
    for i = 1, found[2] and #found[2] or 0, 2 do
      local fine, shortened = pcall(shorten[list], found[2][i], tonumber(found[2][i + 1]))
      if fine and shortened then
        ring()
      end
    end
    if found[1] and found[1] ~= '0' then
      walk = list .. ' ' .. found[1]
    else
      walk = AFTER[list] and AFTER[list] .. ' 0'
    end
  end
  if walk then
    call('HSET', keys.control, 'clock_walk', walk)
  elseif walked then
    call('HDEL', keys.control, 'clock_walk')
  end
  return walk and true or false, looked
end

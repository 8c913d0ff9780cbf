-- forget: remove every key of jobs that ended long enough ago, or are more than are to be kept; bounded.
-- Script  tending
-- Uses  retention
-- KEYS  ended_completed ended_failed ended_cancelled ended_kept events control
-- ARGV  most  how many to remove in one call
-- Rules  keep_completed_ms keep_completed keep_failed_ms keep_failed
-- Returns  how many were removed
local removed = 0
local young_ms = now_ms - 60000
local LOOKED_AT = 1000 -- jobs with a time of their own, or with one that has not come, in one call
local COUNTED = 10000 -- jobs with a time of their own

local function remove(key)
  retention.remove(key)
  removed = removed + 1
end

-- Whether an ended job is to go, by the time of its end and how many ended after it.
local function over(ended_ms, age_ms, count, kept)
  return ended_ms <= now_ms - age_ms or (tonumber(count) > 0 and kept > tonumber(count) and ended_ms <= young_ms)
end

redis.pcall('XTRIM', keys.events, 'MINID', young_ms)

-- They stand in the order of their ends. One that ended while the clock was ahead would hold up all behind it: it counts
-- as ended now, and goes behind them.
local kept, ahead = call('LLEN', keys.ended_completed), 0
while removed < tonumber(most) and ahead < LOOKED_AT do
  local key = call('LINDEX', keys.ended_completed, 0)
  if not key then
    break
  end
  local ended_ms = tonumber(redis.pcall('HGET', key_of('job', key), 'ended_ms') or 0) or 0
  if ended_ms > now_ms + 60000 then
    call('HSET', key_of('job', key), 'ended_ms', now_ms)
    call('RPUSH', keys.ended_completed, call('LPOP', keys.ended_completed))
    ahead = ahead + 1
  elseif over(ended_ms, keep_completed_ms, keep_completed, kept) then
    call('LPOP', keys.ended_completed)
    remove(key)
    kept = kept - 1
  else
    break
  end
end

-- How many of them do not count among the others: they have a time of their own. Where there are too many to count, all
-- that have one are taken for some of these: rather too many are kept than too few.
local function apart(ended)
  local all = call('ZCARD', keys.ended_kept)
  if all == 0 or tonumber(keep_failed) == 0 then
    return 0
  end
  return math.min(all, call('ZCARD', ended)) <= COUNTED and call('ZINTERCARD', 2, keys.ended_kept, ended) or all
end

-- Jobs with a time of their own stand among the others. So that any number of them hides nobody, a call that has passed
-- many of them notes how many, and the next goes on from there; once all were looked at it begins anew.
for _, place in ipairs({ { 'forget_failed', keys.ended_failed }, { 'forget_cancelled', keys.ended_cancelled } }) do
  local name, ended = unpack(place)
  local noted = call('HGET', keys.control, name)
  local from = tonumber(noted) or 0
  local passed, all = 0, false
  kept = call('ZCARD', ended) - apart(ended)
  while removed < tonumber(most) and passed < LOOKED_AT and not all do
    local first = from + passed
    local some = call('ZRANGE', ended, first, first + 99, 'WITHSCORES')
    all = #some == 0
    for i = 1, #some, 2 do
      if not over(tonumber(some[i + 1]), keep_failed_ms, keep_failed, kept) then
        all = true
      end
      if all or removed >= tonumber(most) then
        break
      end
      if call('ZSCORE', keys.ended_kept, some[i]) then
        passed = passed + 1
      else
        retention.leave(some[i])
        remove(some[i])
        kept = kept - 1
      end
    end
  end
  if all and noted then
    call('HDEL', keys.control, name)
  elseif passed >= LOOKED_AT then
    call('HSET', keys.control, name, from + passed)
  end
end

for _, key in ipairs(call('ZRANGE', keys.ended_kept, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, tonumber(most) - removed)) do
  retention.leave(key)
  remove(key)
end
return removed

-- forget: remove every key of jobs that ended long enough ago, or are more than are to be kept; bounded.
-- Script  tending
-- Uses  retention
-- KEYS  ended_completed ended_failed ended_cancelled ended_kept events control
-- ARGV  most  how many to remove in one call
-- Rules  keep_completed_ms keep_completed keep_failed_ms keep_failed
-- Returns  <how many were removed> <1: there may be more to remove, 0: there is not>
local PASSED = 300 -- jobs with a time of their own, of each list in one call
local COUNTED = 2000 -- of these among failed or cancelled ones
local PAGE = 50 -- jobs in one read
local FEED_ENTRIES = 100 -- of the live feed: one of its nodes has as many at most
local left = tonumber(most) -- jobs that may still be removed, or put off
local removed, more = 0, false
local young_ms = now_ms - 60000

local function remove(jobs)
  retention.remove(jobs)
  removed, left = removed + #jobs, left - #jobs
end

-- Whether an ended job is to go, by the time of its end and how many ended after it.
local function over(ended_ms, age_ms, count, kept)
  return ended_ms <= now_ms - age_ms or (tonumber(count) > 0 and kept > tonumber(count) and ended_ms <= young_ms)
end

-- Whole nodes of the feed first, and when all of those are gone the old entries of the next one.
local trimmed = redis.pcall('XTRIM', keys.events, 'MINID', '~', young_ms, 'LIMIT', FEED_ENTRIES)
if trimmed == 0 then
  redis.pcall('XTRIM', keys.events, 'MINID', young_ms)
end
more = type(trimmed) == 'number' and trimmed > 0

-- They stand in the order of their ends. One that ended while the clock was ahead would hold up all behind it: it counts
-- as ended now, and goes behind them.
local completed_jobs = call('LLEN', keys.ended_completed)
local old, ahead = {}, {}
for _, key in ipairs(call('LRANGE', keys.ended_completed, 0, left - 1)) do
  local ended_ms = tonumber(redis.pcall('HGET', key_of('job', key), 'ended_ms') or 0) or 0
  if ended_ms > now_ms + 60000 then
    ahead[#ahead + 1] = key
  elseif over(ended_ms, keep_completed_ms, keep_completed, completed_jobs - #old) then
    old[#old + 1] = key
  else
    break
  end
end
if #old + #ahead > 0 then
  call('LPOP', keys.ended_completed, #old + #ahead)
  for _, key in ipairs(ahead) do
    call('HSET', key_of('job', key), 'ended_ms', now_ms)
    call('RPUSH', keys.ended_completed, key)
  end
  left = left - #ahead
  remove(old)
end

-- How many of them do not count among the others: they have a time of their own. Where there are too many to count, all
-- that have one are taken for some of these: rather too many are kept than too few.
local function apart(ended)
  local own, all = call('ZCARD', keys.ended_kept), call('ZCARD', ended)
  if own == 0 or all <= tonumber(keep_failed) or tonumber(keep_failed) == 0 then
    return 0
  end
  return math.min(own, all) <= COUNTED and call('ZINTERCARD', 2, keys.ended_kept, ended) or own
end

-- Jobs with a time of their own stand among the others. So that they never hide the others, a call that has passed
-- many of them notes how many, and the next goes on from there; once all were looked at it begins again.
for _, place in ipairs({ { 'forget_failed', keys.ended_failed }, { 'forget_cancelled', keys.ended_cancelled } }) do
  local name, ended = unpack(place)
  local noted = call('HGET', keys.control, name)
  local from = tonumber(noted) or 0
  local passed, all = 0, false
  local kept = left > 0 and call('ZCARD', ended) - apart(ended)
  while left > 0 and passed < PASSED and not all do
    local page = call('ZRANGE', ended, from + passed, from + passed + PAGE - 1, 'WITHSCORES')
    local jobs, gone = {}, {}
    for i = 1, #page, 2 do
      jobs[#jobs + 1] = page[i]
    end
    all = #jobs == 0
    for i, own in ipairs(all and {} or call('ZMSCORE', keys.ended_kept, unpack(jobs))) do
      all = all or not over(tonumber(page[2 * i]), keep_failed_ms, keep_failed, kept)
      if all or #gone == left then
        break
      elseif own then
        passed = passed + 1
      else
        retention.leave(jobs[i])
        gone[#gone + 1] = jobs[i]
        kept = kept - 1
      end
    end
    remove(gone)
  end
  if all and noted then
    call('HDEL', keys.control, name)
  elseif passed >= PASSED then
    call('HSET', keys.control, name, from + passed)
    more = true
  end
end

if left > 0 then
  local own = call('ZRANGE', keys.ended_kept, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, left)
  for _, key in ipairs(own) do
    retention.leave(key)
  end
  remove(own)
end
return { removed, (more or left == 0) and 1 or 0 }

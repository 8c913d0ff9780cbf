-- forget: remove every key of jobs that ended long enough ago, or are more than are to be kept; bounded.
-- KEYS  ended_completed  list    completed jobs in the order of their ends
--       ended_failed     zset    failed jobs by time
--       ended_cancelled  zset    cancelled jobs by time
--       ended_kept       zset    jobs with a time of their own, by when it is over
--       alarms           zset    when they would have expired
--       events           stream  the live feed: what is older than a minute is of no use to anybody
--       control          hash    how far it has looked past jobs with a time of their own
-- ARGV  completed_ms     how long a completed job is kept
--       completed_count  how many completed jobs are kept, 0: any number; never one that ended less than a minute ago
--       failed_ms        how long a failed or cancelled job is kept
--       failed_count     how many of each are kept, 0: any number
--       most             how many to remove in one call
-- Returns  how many were removed
local removed = 0
local young_ms = now_ms - 60000
local LOOKED_AT = 1000 -- jobs with a time of their own, in one call

local function remove(key)
  local record = prefix .. 'job:' .. key
  local dedupe = redis.pcall('HGET', record, 'dedupe')
  if type(dedupe) == 'string' and call('GET', prefix .. 'dedupe:' .. dedupe) == key then
    call('DEL', prefix .. 'dedupe:' .. dedupe)
  end
  call('DEL', record, prefix .. 'log:' .. key, prefix .. 'args:' .. key, prefix .. 'steps:' .. key)
  call('ZREM', alarms, '!' .. key)
  removed = removed + 1
end

-- Whether an ended job is to go, by the time of its end and how many ended after it.
local function over(ended_ms, age_ms, count, kept)
  return ended_ms <= now_ms - age_ms or (tonumber(count) > 0 and kept > tonumber(count) and ended_ms <= young_ms)
end

redis.pcall('XTRIM', events, 'MINID', young_ms)

local kept = call('LLEN', ended_completed)
while removed < tonumber(most) do
  local key = call('LINDEX', ended_completed, 0)
  if not key then
    break
  end
  local ended_ms = tonumber(redis.pcall('HGET', prefix .. 'job:' .. key, 'ended_ms') or 0) or 0
  if not over(ended_ms, completed_ms, completed_count, kept) then
    break
  end
  call('LPOP', ended_completed)
  remove(key)
  kept = kept - 1
end

-- Jobs with a time of their own stand among the others. So that any number of them hides nobody, a call that has passed
-- many of them notes where it stopped, and the next goes on from there; once all were looked at it begins anew.
for _, place in ipairs({ { 'forget_failed', ended_failed }, { 'forget_cancelled', ended_cancelled } }) do
  local name, ended = unpack(place)
  local noted = call('HGET', control, name)
  local from, last = noted or '-inf', nil
  local passed, all = 0, false
  kept = call('ZCARD', ended)
  while removed < tonumber(most) and passed < LOOKED_AT and not all do
    local some = call('ZRANGE', ended, from, '+inf', 'BYSCORE', 'LIMIT', passed, 100, 'WITHSCORES')
    all = #some == 0
    for i = 1, #some, 2 do
      if not over(tonumber(some[i + 1]), failed_ms, failed_count, kept) then
        all = true
      end
      if all or removed >= tonumber(most) then
        break
      end
      if call('ZSCORE', ended_kept, some[i]) then
        passed, last = passed + 1, some[i + 1]
      else
        call('ZREM', ended, some[i])
        remove(some[i])
        kept = kept - 1
      end
    end
  end
  if all and noted then
    call('HDEL', control, name)
  elseif passed >= LOOKED_AT then
    call('HSET', control, name, from == last and '(' .. last or last)
  end
end

for _, key in ipairs(call('ZRANGE', ended_kept, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, tonumber(most) - removed)) do
  call('ZREM', ended_kept, key)
  call('ZREM', ended_failed, key)
  call('ZREM', ended_cancelled, key)
  remove(key)
end
return removed

-- forget: remove every key of jobs that ended long enough ago, or are more than are to be kept; bounded.
-- KEYS  ended_completed  list    completed jobs in the order of their ends
--       ended_failed     zset    failed jobs by time
--       ended_cancelled  zset    cancelled jobs by time
--       ended_kept       zset    jobs with a time of their own, by when it is over
--       alarms           zset    when they would have expired
--       events           stream  the live feed: what is older than a minute is of no use to anybody
-- ARGV  completed_ms     how long a completed job is kept
--       completed_count  how many completed jobs are kept, 0: any number; never one that ended less than a minute ago
--       failed_ms        how long a failed or cancelled job is kept
--       failed_count     how many of each are kept, 0: any number
--       most             how many to remove in one call
-- Returns  how many were removed
local removed = 0
local young_ms = now_ms - 60000
local LOOKED_AT = 1000 -- jobs with a time of their own, before others that are to go

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

for _, ended in ipairs({ ended_failed, ended_cancelled }) do
  kept = call('ZCARD', ended)
  local place = 0 -- of the oldest that has no time of its own
  while removed < tonumber(most) and place < LOOKED_AT do
    local first = call('ZRANGE', ended, place, place, 'WITHSCORES')
    if not first[1] or not over(tonumber(first[2]), failed_ms, failed_count, kept) then
      break
    end
    if call('ZSCORE', ended_kept, first[1]) then
      place = place + 1
    else
      call('ZREM', ended, first[1])
      remove(first[1])
      kept = kept - 1
    end
  end
end

for _, key in ipairs(call('ZRANGE', ended_kept, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, tonumber(most) - removed)) do
  call('ZREM', ended_kept, key)
  call('ZREM', ended_failed, key)
  call('ZREM', ended_cancelled, key)
  remove(key)
end
return removed

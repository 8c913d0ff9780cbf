-- bury: forget a consumer that holds nothing and has fallen silent or said goodbye; one that still lives just beats again.
-- KEYS  beats        hash    its counter
--       consumers    hash    what it told of itself
--       idle         zset    where it may wait for work
--       called       zset    where it may have been called
--       control      hash    whether it keeps the time
--       due          zset    the time that another is to keep then
--       alarms       zset
--       jobs_urgent  stream  whose group forgets it, as its three neighbours
--       jobs_high    stream
--       jobs_normal  stream
--       jobs_low     stream
-- ARGV  owner    the consumer
--       counter  its beat counter as last seen
-- Returns  buried | alive | holds
if (call('HGET', beats, owner) or '') ~= counter then
  return 'alive'
end
if call('EXISTS', holds(owner)) == 1 then
  return 'holds'
end
call('HDEL', beats, owner)
redis.pcall('HDEL', consumers, owner)
call('ZREM', idle, owner)
if calls.come(owner) then
  ring()
end
call('DEL', key_of('bell', owner))
calls.stay_away(owner, call('HGET', control, 'timekeeper'), calls.next_time())
for _, band in ipairs(BANDS) do
  local pending = redis.pcall('XPENDING', jobs[band], GROUP, '-', '+', 1, owner)
  if not pending.err and #pending == 0 then
    call('XGROUP', 'DELCONSUMER', jobs[band], GROUP, owner)
  end
end
return 'buried'

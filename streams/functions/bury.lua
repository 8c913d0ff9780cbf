-- bury: forget a consumer that holds nothing and has fallen silent or said goodbye; one that still lives just beats again.
-- Script  tending
-- Uses  calls
-- KEYS  beats consumers idle control jobs
-- ARGV  owner    the consumer
--       counter  its beat counter as last seen
-- Returns  buried | alive | holds
if (call('HGET', keys.beats, owner) or '') ~= counter then
  return 'alive'
end
if call('EXISTS', holds(owner)) == 1 then
  return 'holds'
end
call('HDEL', keys.beats, owner)
redis.pcall('HDEL', keys.consumers, owner)
call('ZREM', keys.idle, owner)
if calls.come(owner) then
  ring()
end
call('DEL', key_of('bell', owner))
calls.stay_away(owner, call('HGET', keys.control, 'timekeeper'), calls.next_time())
for _, band in ipairs(BANDS) do
  local pending = redis.pcall('XPENDING', keys.jobs[band], GROUP, '-', '+', 1, owner)
  if not pending.err and #pending == 0 then
    call('XGROUP', 'DELCONSUMER', keys.jobs[band], GROUP, owner)
  end
end
return 'buried'

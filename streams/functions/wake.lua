-- wake: bring what is due in line, end what has expired, and call others for a consumer that does not come.
-- Script  tending
-- Uses  waking
-- KEYS  due alarms called
-- Rules  max_running_per_key key_rate key_rate_ms
-- Returns  how many there were
local CLAIM_US = 500000 -- a consumer that was called claims within milliseconds, unless it is dead, frozen or cut off

if call('EXISTS', keys.due, keys.alarms, keys.called) == 0 then
  return 0
end
local count = waking.bring_due(max_running_per_key, key_rate, key_rate_ms)
local list = call('ZRANGE', keys.called, 0, 99, 'WITHSCORES')
local late = 0
for i = 1, #list, 2 do
  if math.abs(now_us - list[i + 1]) >= CLAIM_US then -- also when the clock was set back
    call('ZREM', keys.called, list[i])
    late = late + 1
  end
end
if late > 0 then
  call_idle(MOST_CALLS, nil, true) -- others that wait as long may be gone with it
elseif rings > 0 then
  ring() -- one more than needed: the first may be gone, and the next look is a second away
end
return count

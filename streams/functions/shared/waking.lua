-- waking: what happens when its time comes, for the transitions that look at the clock: `claim` and `wake`.
-- Uses  clock ends history places
-- KEYS  due alarms

local MOST_DUE = 20 -- jobs, and as many alarms, whose time has come in one call: a millisecond or two
local PARKED_CALLED = 5 -- of one limit key, whose alarm may be one of twenty; each that starts calls two others

-- What is due comes in line, what has expired ends, and jobs parked for a limit key are called. Bounded: answers how
-- many there were, whether others may have expired as well, and whether there are more to look at.
function waking.bring_due(max_running_per_key, key_rate, key_rate_ms)
  local walking, looked = clock.mind()
  local most = looked == 0 and MOST_DUE or MOST_DUE / 4
  local woken = call('ZRANGE', keys.due, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, most)
  for _, key in ipairs(woken) do
    call('ZREM', keys.due, key)
    local record = key_of('job', key)
    local fine, state, job = pcall(places.standing, record)
    if fine and state == 'delayed' then
      pcall(places.come_due, record, key, job)
    end
  end
  local rung_alarms = call('ZRANGE', keys.alarms, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  for i = 1, #rung_alarms, 2 do
    local alarm = rung_alarms[i]
    call('ZREM', keys.alarms, alarm)
    local kind, name = match(alarm, '^(.)(.*)$')
    if kind == '~' then
      ring()
    elseif kind == '*' then
      places.call_parked(name, PARKED_CALLED, max_running_per_key, key_rate, key_rate_ms)
    else
      local record = key_of('job', name)
      local fine, state, job = pcall(places.standing, record)
      if kind == '^' then
        if fine and state == 'awaiting' then
          pcall(places.time_out, record, name, job)
        end
      elseif fine and (state == 'waiting' or state == 'delayed') and not job.attempt then
        places.leave(name, job)
        ends.fail(record, name, job, 'expired', 'Expired', 'it was not started in time',
          ',"expiresAt":"' .. history.iso(tonumber(rung_alarms[i + 1])) .. '"')
      end
    end
  end
  local count = #woken + #rung_alarms / 2
  return count, #rung_alarms == 2 * most, count >= most or walking
end

-- wait: an attempt ends without failing, because its job sleeps or awaits a signal or its children; unless that is there.
-- Script  settling
-- Uses  ends history lease places
-- KEYS  record log steps signals
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       max_starts  how often it may be started in all
--       awaits      sleep | signal | join
--       place       of a sleep or a signal: the name among the steps under which it is noted that its time is over; of a join: its number
--       name        of the signal
--       delay_ms    for how long; empty: until it is there
--       fails       1: the first child that does not complete ends the join
--       order       block | skip | strict: whether those behind it in its order wait meanwhile
-- Returns  ready <data of the signal>: the attempt goes on | timeout: it goes on without the signal | ok | failed | cancelled | again | lost
local job, refused = lease.own(record, key, nonce, 'awaiting', 'delayed', 'waiting')
if not job then
  return refused
end
local answer = ends.obeyed(record, key, job)
if answer then
  return answer
end
local joins, sleeps, pending = awaits == 'join', awaits == 'sleep', nil
if joins then
  local field = call('HMGET', record, 'join', 'wanted', 'join_failed')
  pending = tonumber(field[2] or 0)
  if field[1] ~= place or pending <= 0 or (fails == '1' and field[3]) then
    return { 'ready', '' }
  end
elseif call('HEXISTS', steps, place) == 1 then
  return sleeps and { 'ready', '' } or 'timeout'
else
  local data = not sleeps and call('HGET', signals, name)
  if data then
    return { 'ready', data }
  end
  if delay_ms ~= '' and tonumber(delay_ms) <= 0 then
    call('HSET', steps, place, sleeps and 'true' or '"timeout"')
    return sleeps and { 'ready', '' } or 'timeout'
  end
end
answer = ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if answer then
  return answer
end

local until_ms = delay_ms ~= '' and format('%.0f', now_ms + delay_ms) or nil
local told = until_ms and ',"until":"' .. history.iso(tonumber(until_ms)) .. '"' or ''
if sleeps then
  call('HSET', record, 'awaits', 'sleep ' .. place)
  places.rest(record, key, job, until_ms, history.body(job.attempt, 'delayed', job.owner, told .. ',"reason":"sleep"'),
    order == 'skip', delay_ms)
  return 'ok'
end
if joins then
  call('HSET', record, 'awaits', awaits, 'join_fails', fails == '1' and 1 or 0)
  told = ',"for":"children","pending":' .. format('%d', pending)
else
  call('HSET', record, 'awaits', 'signal ' .. name .. ' ' .. place)
  told = ',"for":"signal","signal":"' .. name .. '"' .. told
end
places.await(record, key, job, history.body(job.attempt, 'awaiting', job.owner, told), order == 'skip', until_ms, delay_ms)
return 'ok'

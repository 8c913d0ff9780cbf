-- delay: an attempt puts its job off to a later time; not a failure.
-- Script  settling
-- Uses  ends history lease places rates
-- KEYS  record log control
-- ARGV  key         the job's key
--       nonce       the fence: refused unless it is the current one
--       max_starts  how often it may be started in all
--       delay_ms    for how long
--       hold        1: no job of the platform starts before that time either
--       order       block | skip | strict: whether those behind it in its order wait meanwhile
-- Returns  ok | failed | cancelled | again | lost
local job, refused = lease.own(record, key, nonce, 'delayed')
if not job then
  return refused
end
local answer = ends.obeyed(record, key, job) or ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if not answer then
  local until_ms = now_ms + delay_ms
  places.rest(record, key, job, format('%.0f', until_ms), history.body(job.attempt, 'delayed', job.owner, ',"until":"' .. history.iso(until_ms) ..
    '"' .. (hold == '1' and ',"reason":"rate"' or '')), order == 'skip', delay_ms)
  if hold == '1' and until_ms > rates.held_until() then
    call('HSET', keys.control, 'held_until_ms', format('%.0f', until_ms), 'held_ms', delay_ms)
  end
end
return answer or 'ok'

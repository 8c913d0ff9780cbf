-- resume: start the jobs of a paused or held platform again.
-- Script  acting
-- KEYS  control
-- Returns  ok | again
if call('HDEL', keys.control, 'paused', 'held_until_ms', 'held_ms') > 0 then
  ring(MOST_CALLS)
  return 'ok'
end
return 'again'

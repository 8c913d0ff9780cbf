-- resume: start the jobs of a paused or held platform again.
-- KEYS  control  hash    whether the platform is paused
--       idle     zset    consumers that wait for work, to be called
-- Returns  ok | again
if call('HDEL', control, 'paused', 'held_until_ms', 'held_ms') > 0 then
  ring(MOST_CALLS)
  return 'ok'
end
return 'again'

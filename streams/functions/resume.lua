-- resume: start the jobs of a paused platform again.
-- KEYS  control  hash    whether the platform is paused
--       bell     stream  rung: there is work
-- Returns  ok | again
if call('HDEL', control, 'paused') == 1 then
  rung = true
  return 'ok'
end
return 'again'

-- pause: start no more jobs of a platform; what runs goes on.
-- Script  acting
-- KEYS  control
-- ARGV  by  who asked, and when
-- Returns  ok | again
if call('HSETNX', keys.control, 'paused', by) == 1 then
  return 'ok'
end
return 'again'

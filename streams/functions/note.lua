-- note: keep who acted, if the operation before it in the same call did something.
-- Script  acting
-- KEYS  audit
-- ARGV  act    what was asked for
--       key    the job that it is about; empty: the platform
--       said   who asked and what else is to be known, JSON
--       done   the answers that mean that something was done, separated by spaces; empty: any number
--       token  names the act: one that was sent again, or is done on many jobs, is kept once
-- Returns  ok | again
local MOST = 1000
local answer = tostring(last_answer)
local did = done == '' and tonumber(answer) or string.find(' ' .. done .. ' ', ' ' .. answer .. ' ', 1, true)
if not did or answer == 'cancelling' and told == 0 then -- it was asked to stop before: nothing happened now
  return 'again'
end
local newest = call('XREVRANGE', keys.audit, '+', '-', 'COUNT', 1)[1]
if newest and newest[2][8] == token then
  return 'again'
end
call('XADD', keys.audit, 'MAXLEN', '~', MOST, '*', 'act', act, 'job', key, 'said', said, 'token', token)
return 'ok'

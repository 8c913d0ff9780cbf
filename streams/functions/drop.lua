-- drop: remove every key of one failed or cancelled job now.
-- Script  acting
-- Uses  retention
-- KEYS  record log args steps children signals
-- ARGV  key  the job's key
-- Returns  ok | missing | waiting | delayed | awaiting | running | completed
local state = call('HGET', record, 'state')
if state ~= 'failed' and state ~= 'cancelled' then
  return state or 'missing'
end
retention.leave(key)
retention.remove({ key })
return 'ok'

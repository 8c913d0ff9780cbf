-- reopen: give a failed or cancelled job another life: its budgets are new, its history stays.
-- Script  acting
-- Uses  places reopening
-- KEYS  record log args
-- ARGV  key   the job's key
--       more  who asked, JSON members with a leading comma, or empty
-- Returns  ok | missing | waiting | delayed | awaiting | running | completed
local state, job = places.standing(record)
if state ~= 'failed' and state ~= 'cancelled' then
  return state or 'missing'
end
reopening.reopen(record, key, job, more)
return 'ok'

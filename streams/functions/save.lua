-- save: keep the result of a step of a running attempt; the first one counts.
-- KEYS  steps   hash  what the job's steps gave
--       leases  hash  the fence
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       name   the step
--       value  what it gave, JSON
-- Returns  saved | again | lost | cancelled
local job = fence(key, nonce)
if not job then
  return 'lost'
end
if #job.marks > 0 and mark(job.marks, 'cancel') then
  return 'cancelled'
end
return call('HSETNX', steps, name, value) == 1 and 'saved' or 'again'

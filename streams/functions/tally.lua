-- tally: count what waits on a platform, and what has ever ended there, by outcome.
-- Script  tending
-- KEYS  jobs leases due awaiting control
-- Returns  how many jobs wait, and how many have ever ended completed, failed and cancelled, and how many attempts were ever lost
local standing, ended = 0, 0
for _, band in ipairs(BANDS) do
  local length = call('XLEN', keys.jobs[band])
  standing = standing + length
  local facts = redis.pcall('XINFO', 'STREAM', keys.jobs[band]) -- protected: a line that was never used is not there
  for i = 1, #facts, 2 do
    if facts[i] == 'entries-added' then
      ended = ended + facts[i + 1] - length
    end
  end
end
local counted = call('HMGET', keys.control, 'failed', 'cancelled', 'lost')
local failed, cancelled = tonumber(counted[1] or 0), tonumber(counted[2] or 0)
local waiting = math.max(0, standing - call('HLEN', keys.leases) - call('ZCARD', keys.due) - call('ZCARD', keys.awaiting))
return { waiting, math.max(0, ended - failed - cancelled), failed, cancelled, tonumber(counted[3] or 0) }

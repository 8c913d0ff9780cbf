-- beat: say that a consumer lives, and hear which of its attempts it has lost or should stop.
-- Script  beating
-- Uses  lease
-- KEYS  beats consumers leases control
-- ARGV  owner  the consumer that beats
--       held   nonces it runs, separated by spaces
--       about  what it tells of itself, JSON; empty: nothing new
-- Returns  three lists and a number: nonces it runs and no longer owns; jobs it owns and did not name, as key then nonce, of hundreds only some; nonces of attempts that are asked to stop; how often a restart was asked for
call('HINCRBY', keys.beats, owner, 1)
if #about > 0 then
  redis.pcall('HSET', keys.consumers, owner, about) -- protected: whatever became of that key, its beats count
end

local PIECE, STRAYS = 1000, 100 -- nonces in one read; leases beside them that one beat looks at, chosen at random
local runs, known = {}, {}
for nonce in string.gmatch(held, '%S+') do
  runs[#runs + 1] = nonce
  known[nonce] = true
end
local lost, stop, owned = {}, {}, 0
for first = 1, #runs, PIECE do
  for i, text in ipairs(call('HMGET', keys.leases, unpack(runs, first, math.min(#runs, first + PIECE - 1)))) do
    if not text then
      lost[#lost + 1] = runs[first + i - 1]
    else
      owned = owned + 1
      if lease.asked_to_stop(text) then
        stop[#stop + 1] = runs[first + i - 1]
      end
    end
  end
end

local stray = {}
if call('SCARD', holds(owner)) ~= owned then
  local some = lease.some_of(owner, STRAYS)
  for i = 1, #some, 2 do
    if not known[some[i]] then
      stray[#stray + 1], stray[#stray + 2] = lease.read(some[i + 1]), some[i]
    end
  end
end
return { lost, stray, stop, call('HGET', keys.control, 'restarts') or '0' }

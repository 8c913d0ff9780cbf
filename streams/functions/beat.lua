-- beat: say that a consumer lives, and hear which of its attempts it has lost or should stop.
-- KEYS  beats      hash  owner -> beat counter
--       consumers  hash  owner -> what it tells of itself
--       leases     hash  who runs what
--       control    hash  how often a restart was asked for
-- ARGV  owner  the consumer that beats
--       held   the nonces it runs, separated by spaces
--       about  what it tells of itself, JSON; empty: nothing new
-- Returns  three lists and a number: nonces it runs and no longer owns; jobs it owns and does not run, as key then nonce; nonces of attempts that are asked to stop; how often a restart was asked for
call('HINCRBY', beats, owner, 1)
if #about > 0 then
  redis.pcall('HSET', consumers, owner, about) -- protected: whatever became of that key, its beats count
end
local known = {}
for nonce in string.gmatch(held, '%S+') do
  known[nonce] = true
end
local stray, stop = {}, {}
local all = call('HGETALL', leases)
for i = 1, #all, 2 do
  local key, holder, marks = match(all[i + 1], '^%d+ %d+ (%S+) %S+ %S+ (%S+) %S+ %S+ %d+(.*)$')
  if known[all[i]] then
    known[all[i]] = nil
    if match(marks, ' cancel=1') then
      stop[#stop + 1] = all[i]
    end
  elseif holder == owner then
    stray[#stray + 1] = key
    stray[#stray + 1] = all[i]
  end
end
local lost = {}
for nonce in pairs(known) do
  lost[#lost + 1] = nonce
end
return { lost, stray, stop, call('HGET', control, 'restarts') or '0' }

-- beat: say that a consumer lives, and hear which of its attempts it has lost.
-- KEYS  beats   hash  owner -> beat counter
--       leases  hash  who runs what
-- ARGV  owner  the consumer that beats
--       held   the nonces it runs, separated by spaces
-- Returns  two lists: nonces it runs and no longer owns; jobs it owns and does not run, as key then nonce
call('HINCRBY', beats, owner, 1)
local known = {}
for nonce in string.gmatch(held, '%S+') do
  known[nonce] = true
end
local stray = {}
local all = call('HGETALL', leases)
for i = 1, #all, 2 do
  local key, holder = match(all[i + 1], '^%d+ %d+ (%S+) %S+ %S+ (%S+)')
  if known[all[i]] then
    known[all[i]] = nil
  elseif holder == owner then
    stray[#stray + 1] = key
    stray[#stray + 1] = all[i]
  end
end
local lost = {}
for nonce in pairs(known) do
  lost[#lost + 1] = nonce
end
return { lost, stray }

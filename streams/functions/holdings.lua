-- holdings: see some of the jobs that one owner runs, chosen at random, so that several observers see different ones.
-- Script  tending
-- KEYS  leases  hash  who runs what
-- ARGV  owner  the consumer
--       most   how many to see
-- Returns  nonce and lease in turn
local answer, over = {}, {}
local nonces = call('SRANDMEMBER', holds(owner), most)
for i, lease in ipairs(#nonces > 0 and call('HMGET', keys.leases, unpack(nonces)) or nonces) do
  if lease then
    answer[#answer + 1] = nonces[i]
    answer[#answer + 1] = lease
  else
    over[#over + 1] = nonces[i]
  end
end
if #over > 0 then -- leases that were removed by hand
  call('SREM', holds(owner), unpack(over))
end
return answer

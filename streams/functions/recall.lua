-- recall: what the steps of a job gave in earlier attempts, a bounded part at a time.
-- Script  settling
-- Uses  lease
-- KEYS  steps
-- ARGV  key     the job's key
--       nonce   the fence: refused unless it is the current one
--       cursor  where the part before ended, 0 for the first
-- Returns  <cursor of the next part, empty after the last> then name and value in turn | lost
if not lease.fence(key, nonce) then
  return 'lost'
end
local part, looks = { cursor }, 0
while part[1] ~= '' and answered < ANSWER_BYTES and looks < 1000 do
  local found = call('HSCAN', steps, part[1], 'COUNT', 1) -- one at a time: each may have a megabyte
  part[1] = found[1] == '0' and '' or found[1]
  looks = looks + 1
  for _, word in ipairs(found[2]) do
    part[#part + 1] = word
    answered = answered + #word
  end
end
return part

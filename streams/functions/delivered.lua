-- delivered: remove from the outbox what was delivered.
-- Script  tending
-- KEYS  outbox
-- ARGV  entries  their ids, separated by spaces
-- Returns  how many were there
local removed = 0
for entry in string.gmatch(entries, '%S+') do
  removed = removed + call('XDEL', keys.outbox, entry)
end
if removed > 0 and call('XLEN', keys.outbox) == 0 then
  call('DEL', keys.outbox) -- whether there is something to deliver is seen by its key
end
return removed

-- delivered: remove from the outbox what was delivered.
-- Script  tending
-- KEYS  outbox
-- ARGV  entries  their ids, separated by spaces
-- Returns  how many were there
local gone = {}
for entry in string.gmatch(entries, '%S+') do
  gone[#gone + 1] = entry
end
local removed = call('XDEL', keys.outbox, unpack(gone))
if removed > 0 and call('XLEN', keys.outbox) == 0 then
  call('DEL', keys.outbox) -- whether there is something to deliver is seen by its key
end
return removed

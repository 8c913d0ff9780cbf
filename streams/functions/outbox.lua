-- outbox: see what is to be delivered to other platforms, a bounded part of it.
-- Script  tending
-- KEYS  outbox
-- ARGV  cursor  the last entry of the part before; empty: from the first on
--       most    how many entries at most
-- Returns  entries: their ids, and field and value of each in turn
local part = {}
local from = cursor == '' and '-' or '(' .. cursor
while #part < tonumber(most) and answered < ANSWER_BYTES do
  local entry = call('XRANGE', keys.outbox, from, '+', 'COUNT', 1)[1] -- one at a time: each may have a quarter of a megabyte
  if not entry then
    break
  end
  part[#part + 1], from = entry, '(' .. entry[1]
  for _, word in ipairs(entry[2]) do
    answered = answered + #word
  end
end
return part

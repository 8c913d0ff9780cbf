-- agenda: see which schedules are due, and when the next one is.
-- Script  ticking
-- Uses  clock
-- KEYS  schedules ticks
-- ARGV  passed  how many of those that are due to pass over: the caller cannot read them
--       most    how many at most
--       bytes   of definitions at most, beside the first
-- Returns  <now in ms> <the first tick that is not in this answer, in ms, or nothing> then name, tick, definition of each that is due
if call('EXISTS', keys.ticks) == 1 then
  clock.mind()
end
local names = call('ZRANGE', keys.ticks, '-inf', now_ms, 'BYSCORE', 'LIMIT', passed, most, 'WITHSCORES')
local answer, told, size = { now_ms, '' }, 0, 0
for i = 1, #names, 2 do
  local definition = call('HGET', keys.schedules, names[i]) or ''
  if told > 0 and size + #definition > tonumber(bytes) then
    break
  end
  told, size = told + 1, size + #definition
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = names[i], names[i + 1], definition
end
answer[2] = call('ZRANGE', keys.ticks, passed + told, passed + told, 'WITHSCORES')[2] or ''
return answer

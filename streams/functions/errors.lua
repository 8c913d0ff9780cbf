-- errors: count the failed jobs of a platform by the type of their error; bounded.
-- Script  tending
-- KEYS  ended_failed ended_errors
-- ARGV  most  how many types to tell
-- Returns  <how many failed jobs are kept> then type, how many, key of the newest of each type
local found = { call('ZCARD', keys.ended_failed) }
local from = '-'
for _ = 1, tonumber(most) do
  local first = call('ZRANGE', keys.ended_errors, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  if not first then
    break
  end
  local error_type = match(first, '^[^\t]*')
  local low, high = '[' .. error_type .. '\t', '(' .. error_type .. '\n'
  local newest = call('ZRANGE', keys.ended_errors, high, low, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1] or first
  found[#found + 1] = error_type
  found[#found + 1] = call('ZLEXCOUNT', keys.ended_errors, low, high)
  found[#found + 1] = match(newest, '[^\t]*$')
  from = high
end
return found

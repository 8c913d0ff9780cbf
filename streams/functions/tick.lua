-- tick: bring the job of a schedule's tick in line and move the schedule to its next one, once, however many consumers ask.
-- Script  ticking
-- Uses  accepting
-- KEYS  record log args schedules ticks
-- ARGV  name         the schedule's name
--       before       SHA-1 of the definition that the caller acts on
--       tick_ms      the tick it was seen at
--       next_ms      its next one; empty: there is none
--       missed       1: no consumer ran at the time, and its job is not wanted any more
--       key          the job's key; another is made of the store's time if it is that of an earlier tick's job
--       band         its priority
--       kind         what is to be done
--       payload      its args, JSON
--       fingerprint  of kind, args and options
--       room         args longer than this many bytes are kept beside the entry
--       extras       what few jobs have, see submit
-- Returns  the answer of submit | missed | passed | gone | refused <why>
local known = call('HGET', keys.schedules, name)
if not known then
  call('ZREM', keys.ticks, name)
  return { 'gone' }
end
local place = call('ZSCORE', keys.ticks, name)
if not place or tonumber(place) ~= tonumber(tick_ms) or redis.sha1hex(known) ~= before then
  return { 'passed' } -- another consumer has moved it, or it was changed meanwhile
end
-- First the next tick: whatever becomes of this one's job, the schedule goes on.
if next_ms == '' then
  call('ZREM', keys.ticks, name)
else
  call('ZADD', keys.ticks, next_ms, name)
end
if missed == '1' then
  return { 'missed' }
end
local fine, answer = pcall(accepting.accept, record, args, key, band, kind, payload, fingerprint, room, extras)
-- This tick has no job yet. A tick before the clock was set back had the same time: the job is named by the present one.
local at = now_ms
while fine and answer[1] == 'again' do
  key = name .. '-' .. format('%.0f', at)
  record, args = key_of('job', key), key_of('args', key)
  fine, answer = pcall(accepting.accept, record, args, key, band, kind, payload, fingerprint, room, extras)
  at = at + 1
end
if fine then
  return answer
end
return { 'refused', type(answer) == 'table' and answer.err or tostring(answer) }

-- spawn: bring jobs of a running attempt in line, each once: its children, or jobs that it only submits.
-- Script  spawning
-- Uses  accepting flows lease
-- KEYS  record children outbox steps
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       most   how many jobs it may have brought in all
--       room   args longer than this many bytes are kept beside their entry
--       whole  with the last page of a place: what is noted among the steps once all of them are in line; else empty
--       jobs   a MessagePack list of lists: id, 1: a child, band, kind, args, fingerprint, extras as `submit` takes them
-- Returns  for each `spawned` | `sent` <entry>: spawned, and this entry of the outbox brings it to its platform | `again` | `conflict`: another job has its id | `duplicate`: another job has its `dedupe` key | `order`: a child cannot have the order key that its parent holds | `corrupt`: its keys are; or lost | cancelled | full
local MOST_NOTED = 4096 -- bytes
local job, refused = lease.at_work(record, key, nonce)
if not job then
  return refused
end
local wanted, ids = cmsgpack.unpack(jobs), {}
for i = 1, #wanted do
  ids[i] = wanted[i][1]
end
local known, fresh = call('HMGET', children, unpack(ids)), 0
local retried = tonumber(job.attempt) - (call('HGET', record, 'earlier') or job.attempt) == 1
for i = 1, #ids do
  fresh = fresh + (known[i] and 0 or 1)
  local ended = retried and known[i] and match(known[i], '^%S+ (%l+) ')
  if ended and ended ~= 'completed' then
    known[i] = false -- how it is now: it may have completed since, and one that is not kept any more runs again
  end
end
if fresh > 0 and call('HLEN', children) + fresh > tonumber(most) then
  return 'full'
end

local parent, own_order = flows.id(key), lease.mark(job.marks, 'order')

local function bring(id, child, band, kind, payload, fingerprint, extras)
  local here = flows.key_here(id)
  if child then
    if here and own_order and lease.mark(' ' .. extras, 'order') == own_order then
      return 'order' -- each would wait for the other
    end
    extras = extras .. (#extras > 0 and ' ' or '') .. 'parent=' .. parent
  end
  if not here then
    local entry = call('XADD', keys.outbox, '*', 'do', 'submit', 'parent', parent, 'child', id, 'band', band, 'kind', kind, 'args', payload,
      'fingerprint', fingerprint, 'extras', extras)
    call('HSET', children, id, child and '' or '.')
    return 'sent ' .. entry
  end
  local answer = accepting.accept(key_of('job', here), key_of('args', here), here, band, kind, payload, fingerprint, room, extras)
  if answer[1] == 'conflict' or child and (answer[1] == 'duplicate' or answer[1] == 'replaced') then
    return answer[1] == 'conflict' and 'conflict' or 'duplicate'
  end
  call('HSET', children, id, child and '' or '.')
  if child and answer[1] == 'again' then
    flows.catch_up(record, key, id, here)
  end
  return 'spawned'
end

local answers, seen, fine_all = {}, {}, true
for i = 1, #wanted do
  local each = wanted[i]
  if known[i] or seen[ids[i]] then
    call('HSET', record, 'nonce', nonce) -- for a WAIT behind this call, as in `lease.own`
    answers[i] = 'again'
  else
    local fine, answer = pcall(bring, each[1], tonumber(each[2]) == 1, unpack(each, 3))
    answers[i] = fine and answer or 'corrupt'
    seen[ids[i]] = fine
    fine_all = fine_all and (answers[i] == 'spawned' or match(answers[i], '^sent '))
  end
end
if whole ~= '' and fine_all then
  local noted = call('HGET', steps, SPAWNED) or ''
  if #noted < MOST_NOTED then -- a handler that spawns many one by one is asked again: else each would copy all before it
    call('HSET', steps, SPAWNED, noted .. whole .. '\n')
  end
end
return answers

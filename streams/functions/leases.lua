-- How a lease and its marks are written; no other file knows. After the prelude. A lease is
--   <reports shown> <number of the last event> <key> <id of `started`> <attempt> <owner> <band> <entry> <deadline in ms><marks>
-- where the id of `started` is `-` once that event is in the history. Marks are what a job holds beside its place in line,
-- each a word ` name=value`; see `submit`.

-- The key of a lease's job, and the job as the lease knows it; nothing of a text that is not a lease.
local function read_lease(lease, nonce)
  local seq, key, started, attempt, owner, band, entry, marks =
    match(lease, '^%d+ (%d+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) %d+(.*)$')
  if key then
    return key, { nonce = nonce, seq = seq, started = started, attempt = attempt, owner = owner,
      band = band, entry = entry, marks = marks }
  end
end

-- The fence: the job as the lease under `nonce` knows it, while `nonce` is the attempt that runs it; else nil. A change of
-- more than the history asks the record too, by `stands`.
local function fence(key, nonce)
  local held_key, job = read_lease(held[nonce] or '', nonce)
  if held_key == key then
    return job
  end
end

-- The same, as far as a lease says what changes: for those that renew it. `rest` is what never changes.
local function glance(key, nonce)
  local reported, seq, held_key, started, rest = match(held[nonce] or '', '^(%d+) (%d+) (%S+) (%S+) (.*)$')
  if held_key == key then
    return reported, seq, started, rest
  end
end

-- The lease of an attempt that has just written an event.
local function renew(key, nonce, reported, seq, rest)
  held[nonce], touched[nonce] = reported .. ' ' .. seq .. ' ' .. key .. ' - ' .. rest, true
end

-- The lease of a new attempt.
local function grant(nonce, seq, key, started, attempt, owner, band, entry, deadline_ms, marks)
  held[nonce], touched[nonce] = '0 ' .. seq .. ' ' .. key .. ' ' .. started .. ' ' .. attempt .. ' ' .. owner .. ' ' ..
    band .. ' ' .. entry .. ' ' .. deadline_ms .. marks, true
  add(granted, owner, nonce)
end

local function mark(marks, name)
  return match(marks, ' ' .. name .. '=(%S+)')
end

local STOP = ' cancel=1'

-- Whether the marks, or a lease with them, say that the job is asked to stop.
local function asked_to_stop(marks)
  return string.find(marks, STOP, 1, true)
end

-- The marks of a lease: `alone`, its process runs nothing else; `strict`, it keeps its place; then those of its record.
local function marks_of(alone, strict, marks)
  return (alone and ' alone=1' or '') .. (strict and ' strict=1' or '') .. (marks and ' ' .. marks or '')
end

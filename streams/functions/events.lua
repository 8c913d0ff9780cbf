-- What the transitions that change a job's life stand on, after the prelude: the clock, the events and the fence.

local clock = call('TIME')
local micros = format('%06d', clock[2])
local now_us = clock[1] .. micros
local now_ms = clock[1] .. string.sub(micros, 1, 3)

-- A number as text. Lua's own way through floating point takes a microsecond, and a batch does this hundreds of times.
local function plus_one(number)
  return format('%d', number + 1)
end

local FEED_BYTES = 4096 -- a larger event is a pointer in the feed

-- An event as it is kept: `<seq>-<microsecond><number within this call> <attempt> <status> <worker> <step and more>`,
-- so that no two jobs ever share an id; readers make the event of it that a client gets. Nothing is `~`.
local function next_id(seq)
  return seq .. '-' .. now_us .. format('%d', #feed / 2)
end

local function tell(key, seq, entry)
  local length = #feed
  feed[length + 1] = key .. ' ' .. seq
  feed[length + 2] = #entry <= FEED_BYTES and entry or ''
end

-- Events that the store itself makes.
local function body(attempt, status, worker, more)
  return (attempt or '~') .. ' ' .. status .. ' ' .. (worker or '~') .. ' null' .. (more or '') .. '}'
end

-- Appends an event to a job's history and to the live feed; answers its number. `started` is not written when an
-- attempt opens, its record tells it: it goes into the history with the attempt's next event.
local function emit(key, job, event)
  local seq = plus_one(job.seq)
  local entry = next_id(seq) .. ' ' .. event
  if job.reported == '0' then
    call('RPUSH', prefix .. 'log:' .. key, job.started .. ' ' .. body(job.attempt, 'started', job.owner), entry)
  else
    call('RPUSH', prefix .. 'log:' .. key, entry)
  end
  tell(key, seq, entry)
  return seq
end

-- The fence: the job as the lease under `nonce` knows it, while `nonce` is the attempt that runs it; else nil. Whoever
-- changes more than the history asks the record too, by `stands`.
-- `rest` is all of the lease but how many reports were shown and the number of the last event.
local function fence(key, nonce)
  local lease = held[nonce]
  if lease then
    local reported, seq, rest, holds, started, attempt, owner, band, entry =
      match(lease, '^(%d+) (%d+) ((%S+) (%S+) (%S+) (%S+) (%S+) (%S+) .*)$')
    if holds == key then
      return { reported = reported, seq = seq, rest = rest, started = started, attempt = attempt, owner = owner,
        band = band, entry = entry }
    end
  end
end

local function drop(nonce)
  held[nonce], touched[nonce] = false, true
  freed = freed + 1
end

-- Whether the record knows of the attempt as well. A lease of which it does not only takes up room, and is dropped.
local function stands(record, nonce)
  if call('HGET', record, 'nonce') == nonce then
    return true
  end
  drop(nonce)
end

-- Why an attempt has no lease. `again`: it brought the job to `goal` before. `lost`: it is not, or no longer, its job.
local function refusal(record, nonce, goal)
  local job = call('HMGET', record, 'state', 'nonce')
  return job[1] == goal and job[2] == nonce and 'again' or 'lost'
end

-- The one end of a job: state, event, entry, lease and retention in one fact.
local function finish(record, key, job, state, event)
  emit(key, job, event)
  call('HSET', record, 'state', state, 'ended_ms', now_ms)
  add(settled, job.band, job.entry)
  if state == 'completed' then -- by far the most: a list keeps the order of their ends at a fifth of the cost
    completed[#completed + 1] = key
  else
    call('ZADD', state == 'failed' and ended_failed or ended_cancelled, now_ms, key)
  end
end

-- The place in line of an entry: its acceptance, as a number that keeps the order of entries within a millisecond.
local function acceptance(entry)
  local ms, n = match(entry, '^(%d+)-(%d+)$')
  return format('%.0f', ms * 4096 + math.min(tonumber(n), 4095))
end

-- Every "back in line": the entry pends under the reserved consumer, the job goes before newer ones. An entry that
-- is no longer pending (its group was destroyed) comes again from the stream itself.
-- A job that was started too often never comes back: it would circle for ever.
local MAX_STARTS = 100

local function back_in_line(record, key, job, reason)
  if tonumber(job.attempt) >= MAX_STARTS then
    finish(record, key, job, 'failed', body(job.attempt, 'failed', job.owner, ',"reason":"starts","error":{"type":' ..
      '"TooManyStarts","message":"it was started ' .. job.attempt .. ' times and never ended"}'))
    return
  end
  local seq = emit(key, job, body(job.attempt, 'superseded', job.owner, ',"reason":"' .. reason .. '"'))
  call('HSET', record, 'state', 'waiting', 'seq', seq)
  local pending = redis.pcall('XPENDING', jobs[job.band], GROUP, job.entry, job.entry, 1)
  if #pending == 1 then -- without this look XAUTOCLAIM would take the next entry when this one is gone
    call('XAUTOCLAIM', jobs[job.band], GROUP, FRONT, 0, job.entry, 'COUNT', 1, 'JUSTID')
    call('ZADD', front, acceptance(job.entry), key)
  end
  rung = true
end

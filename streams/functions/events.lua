-- What the transitions that change a job's life stand on, after leases.lua: the clock, the events and the fence.

local now_us, now_ms = (function(clock)
  local micros = string.format('%06d', clock[2])
  return clock[1] .. micros, clock[1] .. string.sub(micros, 1, 3)
end)(redis.call('TIME'))

-- A time of the store as events show it.
local function iso(ms)
  local seconds = math.floor(ms / 1000)
  local day = math.floor(seconds / 86400)
  -- civil date of a day number: count years from 1 March, so that leap days come last
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local rest = seconds - day * 86400
  return format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', yoe + era * 400 + (month <= 2 and 1 or 0), month,
    doy - math.floor((153 * mp + 2) / 5) + 1, math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, ms % 1000)
end

-- A number as text, and one more. The way through floating point takes a microsecond, and a batch does this hundreds of
-- times, most often for the same few numbers.
local AFTER_NUMBER = {}
local function plus_one(number)
  local after = AFTER_NUMBER[number]
  if not after then
    after = format('%d', number + 1)
    AFTER_NUMBER[number] = after
  end
  return after
end

local FEED_BYTES = 4096 -- a larger event is a pointer in the feed

-- An event as it is kept: `<seq>-<microsecond><number within this call> <attempt> <status> <worker> <step and more>`,
-- so that no two jobs ever share an id; readers make the event of it that a client gets. Nothing is `~`.
local function next_id(seq)
  return seq .. '-' .. now_us .. format('%d', told)
end

local function tell(key, seq, entry)
  local place = 2 * told
  feed[place + 1] = key .. ' ' .. seq
  feed[place + 2] = #entry <= FEED_BYTES and entry or ''
  told = told + 1
end

-- Events that the store itself makes.
local function body(attempt, status, worker, more)
  return (attempt or '~') .. ' ' .. status .. ' ' .. (worker or '~') .. ' null' .. (more or '') .. '}'
end

-- Appends an event to a job's history and to the live feed; answers its number. `before`: what goes before it.
local function append(log, key, seq, event, before)
  seq = plus_one(seq)
  local entry = seq .. '-' .. now_us .. format('%d', told) .. ' ' .. event
  if before then
    call('RPUSH', log, before, entry)
  else
    call('RPUSH', log, entry)
  end
  tell(key, seq, entry)
  return seq
end

-- The event `started` is not written when an attempt opens, its record tells it: it goes into the history with the
-- attempt's next event.
local function opening(job)
  return job.started and job.started ~= '-' and job.started .. ' ' .. body(job.attempt, 'started', job.owner)
end

local function emit(key, job, event)
  return append(key_of('log', key), key, job.seq, event, opening(job))
end

-- The lease of a job goes, if it has one. It goes with the state that says that the job runs, whatever may break after
-- that: a lease that outlived its job would let it end twice.
local function drop(job)
  if job.nonce then
    held[job.nonce], touched[job.nonce] = false, true
    add(dropped, job.owner, job.nonce)
    freed, vacated = freed + 1, vacated + 1
  end
end

-- Whether the record knows of the attempt as well, and its job runs. Else the lease only takes up room, and is dropped.
local function stands(record, job)
  local known = call('HMGET', record, 'nonce', 'state')
  if known[1] == job.nonce and known[2] == 'running' then
    return true
  end
  drop(job)
end

-- The job of an attempt that changes more than the history: both its lease and its record must know of it. Else why not:
-- `again`, it brought the job to a goal before, or `lost`, it is not, or no longer, its job.
local function own(record, key, nonce, goal, other_goal)
  local job = fence(key, nonce)
  if job then
    if stands(record, job) then
      return job
    end
  elseif goal then
    local known = call('HMGET', record, 'state', 'nonce')
    if known[2] == nonce and (known[1] == goal or known[1] == other_goal) then
      return nil, 'again'
    end
  end
  return nil, 'lost'
end

-- The place in line of an entry: its acceptance, as a number that keeps the order of entries within a millisecond.
local function acceptance(entry)
  local ms, n = match(entry, '^(%d+)-(%d+)$')
  return format('%.0f', ms * 4096 + n) -- n is large only while the clock is behind the last entry: ms stands still then
end

-- The one end of a job: state, event, entry, lease and retention in one fact.
local function finish(record, key, job, state, event)
  local seq = emit(key, job, event)
  call('HSET', record, 'state', state, 'ended_ms', now_ms)
  drop(job)
  if state ~= 'completed' then
    ends.keep(record, key, job, state, event, seq)
  end
  add(settled, job.band, job.entry)
  local kept = #job.marks > 0 and ends.heed_marks(key, job)
  if state == 'completed' and not kept then -- by far the most: a list keeps the order of their ends at a fifth of the cost
    completed[#completed + 1] = key
  end
end

-- Somebody asked the job to stop: however its attempt ends, this is the job's end.
local function obeyed(record, key, job)
  if #job.marks > 0 and asked_to_stop(job.marks) then
    finish(record, key, job, 'cancelled', body(job.attempt, 'cancelled', job.owner, call('HGET', record, 'cancel') or ''))
    return 'cancelled'
  end
end

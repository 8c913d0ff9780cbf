-- What the transitions that change a job's life stand on, after the prelude: the clock, the events and the fence.

local clock = call('TIME')
local micros = format('%06d', clock[2])
local now_us = clock[1] .. micros
local now_ms = clock[1] .. string.sub(micros, 1, 3)

local stamped -- the time of this call as a member of an event, made when the first event needs it
local function stamp()
  local seconds = tonumber(clock[1])
  local day = math.floor(seconds / 86400)
  -- civil date of a day number: count years from 1 March, so that leap days come last
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  local rest = seconds - day * 86400
  stamped = format(',"time":"%04d-%02d-%02dT%02d:%02d:%02d.%sZ",', year, month,
    doy - math.floor((153 * mp + 2) / 5) + 1, math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60,
    string.sub(micros, 1, 3))
  return stamped
end

local FEED_BYTES = 4096 -- a larger event is a pointer in the feed

-- Appends an event to a job's history and to the live feed. `tail` is the rest of the event's JSON. The id ends in the
-- microsecond and in the event's number within this call, so that no two jobs ever share one.
local function emit(key, seq, tail)
  local length = #feed
  local event = '{"id":"' .. seq .. '-' .. now_us .. format('%d', length / 2) .. '","seq":' .. seq .. (stamped or stamp()) .. tail
  call('RPUSH', prefix .. 'log:' .. key, event)
  feed[length + 1] = key .. ' ' .. seq
  feed[length + 2] = #event <= FEED_BYTES and event or ''
end

-- The rest of an event that the store itself makes.
local function tail(key, attempt, status, worker, more)
  return '"jobId":"' .. platform .. '.' .. key .. '","attempt":' .. (attempt or 'null') .. ',"status":"' .. status ..
    '","step":null,"workerId":' .. (worker and '"' .. worker .. '"' or 'null') .. (more or '') .. '}'
end

-- A number as text. Lua's own way through floating point takes a microsecond, and a batch does this hundreds of times.
local function plus_one(number)
  return format('%d', number + 1)
end

-- The fence: the job when `nonce` is the attempt that runs it; else nil and why not.
-- `again`: this very attempt brought the job to `goal` before. `lost`: it is not, or no longer, this attempt's job.
-- Fields cost time: an operation names the one it needs beyond the usual.
local function fence(record, nonce, goal, extra)
  local field = call('HMGET', record, 'state', 'nonce', 'seq', 'entry', 'band', extra or 'state')
  if field[2] ~= nonce then
    return nil, 'lost'
  end
  local job = { seq = field[3], entry = field[4], band = field[5] or 'normal', extra = field[6] }
  if field[1] ~= 'running' then
    return nil, field[1] == goal and 'again' or 'lost', job
  end
  return job
end

local function drop(nonce)
  dropped[#dropped + 1] = nonce
  freed = freed + 1
end

-- The one end of a job: state, event, entry, lease and retention in one fact.
local function finish(record, key, job, state, event)
  local seq = plus_one(job.seq)
  emit(key, seq, event)
  call('HSET', record, 'state', state, 'seq', seq, 'ended_ms', now_ms)
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

local function back_in_line(record, key, job, attempt, worker, reason)
  if tonumber(attempt) >= MAX_STARTS then
    finish(record, key, job, 'failed', tail(key, attempt, 'failed', worker, ',"reason":"starts","error":{"type":' ..
      '"TooManyStarts","message":"it was started ' .. attempt .. ' times and never ended"}'))
    return
  end
  local seq = plus_one(job.seq)
  emit(key, seq, tail(key, attempt, 'superseded', worker, ',"reason":"' .. reason .. '"'))
  call('HSET', record, 'state', 'waiting', 'seq', seq)
  local pending = redis.pcall('XPENDING', jobs[job.band], GROUP, job.entry, job.entry, 1)
  if #pending == 1 then -- without this look XAUTOCLAIM would take the next entry when this one is gone
    call('XAUTOCLAIM', jobs[job.band], GROUP, FRONT, 0, job.entry, 'COUNT', 1, 'JUSTID')
    call('ZADD', front, acceptance(job.entry), key)
  end
  rung = true
end

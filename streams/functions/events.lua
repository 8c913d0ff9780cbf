-- What the transitions that change a job's life stand on, after the prelude: the clock, the events and the fence.

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

-- A number as text, and one more. Most jobs have few attempts and events, and a batch does this hundreds of times: the
-- way through floating point takes a microsecond.
local AFTER_NUMBER = { ['0'] = '1', ['1'] = '2', ['2'] = '3' }
local function plus_one(number)
  return AFTER_NUMBER[number] or format('%d', number + 1)
end

local ERROR_TYPE = 50 -- bytes of the type of an error in `ended_errors`
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
  if job.started and job.started ~= '-' then
    call('RPUSH', prefix .. 'log:' .. key, job.started .. ' ' .. body(job.attempt, 'started', job.owner), entry)
  else
    call('RPUSH', prefix .. 'log:' .. key, entry)
  end
  tell(key, seq, entry)
  return seq
end

-- The fence: the job as the lease under `nonce` knows it, while `nonce` is the attempt that runs it; else nil. Whoever
-- changes more than the history asks the record too, by `stands`.
-- `started` is the id of that event until it is in the history, then `-`; `rest` is what never changes.
local function fence(key, nonce)
  local lease = held[nonce]
  if lease then
    local reported, seq, holds_key, started, rest, attempt, owner, band, entry, marks =
      match(lease, '^(%d+) (%d+) (%S+) (%S+) ((%S+) (%S+) (%S+) (%S+) %d+(.*))$')
    if holds_key == key then
      holders[nonce] = owner
      return { reported = reported, seq = seq, started = started, rest = rest, attempt = attempt, owner = owner,
        band = band, entry = entry, marks = marks }
    end
  end
end

-- The lease of an attempt that has just written an event.
local function renew(key, nonce, job, reported, seq, marks)
  held[nonce], touched[nonce] = reported .. ' ' .. seq .. ' ' .. key .. ' - ' .. job.rest .. (marks or ''), true
end

local function drop(nonce)
  held[nonce], touched[nonce] = false, true
  freed, vacated = freed + 1, vacated + 1
end

-- Whether the record knows of the attempt as well, and its job runs. Else the lease only takes up room, and is dropped.
local function stands(record, nonce)
  local job = call('HMGET', record, 'nonce', 'state')
  if job[1] == nonce and job[2] == 'running' then
    return true
  end
  drop(nonce)
end

-- Why an attempt has no lease. `again`: it brought the job to `goal` before. `lost`: it is not, or no longer, its job.
local function refusal(record, nonce, goal)
  local job = call('HMGET', record, 'state', 'nonce')
  return job[1] == goal and job[2] == nonce and 'again' or 'lost'
end

-- The place in line of an entry: its acceptance, as a number that keeps the order of entries within a millisecond.
local function acceptance(entry)
  local ms, n = match(entry, '^(%d+)-(%d+)$')
  return format('%.0f', ms * 4096 + n) -- n is large only while the clock is behind the last entry: ms stands still then
end

-- The marks of a job: what it holds beside its place, as `name=value` words; see `submit`.
local function mark(marks, name)
  return match(marks, ' ' .. name .. '=(%S+)')
end

-- A job that waited for something else comes to the front of its priority. One that is there keeps its place, and so
-- does one that was submitted as the first of all: it stands at the front of the urgent ones, whatever its band.
local function come_forward(key, score, band)
  if not call('ZSCORE', fronts.urgent, key) then
    call('ZADD', fronts[band or 'normal'], 'NX', score, key)
  end
  ring()
end

-- What waits for a label comes to the front, as many as may go on.
local function unpark(label, count)
  local freed_jobs = call('ZPOPMIN', prefix .. 'parked:' .. label, count)
  for i = 1, #freed_jobs, 2 do
    local fine, band = pcall(call, 'HGET', prefix .. 'job:' .. freed_jobs[i], 'band')
    come_forward(freed_jobs[i], freed_jobs[i + 1], fine and band)
  end
end

-- Parked jobs of a limit key come to the front: up to `wanted`, and no more than may start now by the platform's rules.
-- Each of them calls others when it starts, so nobody is forgotten; while the key's rate is closed an alarm does that.
-- Answers whether the alarm was set.
local function call_parked(label, wanted, key_overall, key_rate, key_rate_ms)
  if tonumber(key_overall) > 0 then
    wanted = math.min(wanted, key_overall - (call('HGET', limits, label) or 0))
  end
  if tonumber(key_rate) > 0 and wanted > 0 and call('EXISTS', prefix .. 'parked:' .. label) == 1 then
    local at
    wanted, at = count_starts(prefix .. 'starts:' .. label, key_rate, key_rate_ms, wanted)
    if wanted == 0 then
      call('ZADD', alarms, at, '*' .. label)
      return true
    end
  end
  if wanted > 0 then
    unpark(label, wanted)
  end
end

-- An attempt gives back what its marks hold. `over`: the job will not come back soon, so others of its order may pass.
local function let_go(key, job, over)
  if #job.marks > 0 then
    local limit, order = mark(job.marks, 'limit'), mark(job.marks, 'order')
    if limit then
      if job.started and call('HINCRBY', limits, limit, -1) <= 0 then -- it ran, and held one of the key's places
        call('HDEL', limits, limit)
      end
      unpark(limit, 1) -- also when it did not run: it may have been called to a free place before it ended
    end
    if order then
      if call('HGET', orders, order) == key then
        call('HDEL', orders, order)
      end
      local line = prefix .. 'order:' .. order
      if over then
        call('ZREM', line, key)
      end
      local head = call('ZRANGE', line, 0, 0, 'WITHSCORES')
      if head[1] and head[1] ~= key then
        local next_job = redis.pcall('HMGET', prefix .. 'job:' .. head[1], 'state', 'band') -- protected: it may be corrupt
        if next_job[1] == 'waiting' then -- one that was not handed out yet comes by itself
          come_forward(head[1], head[2], next_job[2])
        end
      end
    end
  end
end

-- What a failed job stands under in `ended_errors`: the type of its error and the time of its end, in front of its key, so
-- that the jobs of one type are one range, oldest first. In an event a type is JSON: it holds no tab, and is taken up to
-- its first escape. Its record keeps this, small enough for a listpack.
local function error_of(event)
  local error_type = match(event, '"error":{"type":"([^"\\]*)') or ''
  if #error_type > ERROR_TYPE then
    error_type = string.gsub(string.sub(error_type, 1, ERROR_TYPE), '[\192-\255][\128-\191]*$', '') -- no half of a character
  end
  return error_type .. '\t' .. now_ms
end

-- A job is no longer one of the failed ones.
local function leave_failed(key)
  if call('ZREM', ended_failed, key) == 1 then
    local error_type = redis.pcall('HGET', prefix .. 'job:' .. key, 'error') -- protected: it may be corrupt
    if type(error_type) == 'string' then
      call('ZREM', ended_errors, error_type .. '\t' .. key)
    end
  end
end

-- The one end of a job: state, event, entry, lease and retention in one fact.
local function finish(record, key, job, state, event)
  local seq = emit(key, job, event)
  call('HSET', record, 'state', state, 'ended_ms', now_ms)
  if state ~= 'completed' then -- somebody may want to try it again: its args would go with its entry
    call('HSET', record, 'seq', seq)
    call('HINCRBY', control, state, 1)
    local found = call('XRANGE', jobs[job.band], job.entry, job.entry)[1]
    if found and found[2][4] then
      call('SET', prefix .. 'args:' .. key, found[2][4])
    end
  end
  add(settled, job.band, job.entry)
  local keep
  if #job.marks > 0 then
    keep = mark(job.marks, 'keep')
    local dedupe = mark(job.marks, 'dedupe')
    if dedupe and call('GET', prefix .. 'dedupe:' .. dedupe) == key then
      call('DEL', prefix .. 'dedupe:' .. dedupe)
    end
    let_go(key, job, true)
  end
  if keep then
    call('ZADD', ended_kept, now_ms + keep * 1000, key)
  end
  if state ~= 'completed' then
    call('ZADD', state == 'failed' and ended_failed or ended_cancelled, now_ms, key)
    if state == 'failed' then
      local error_type = error_of(event)
      call('HSET', record, 'error', error_type)
      call('ZADD', ended_errors, 0, error_type .. '\t' .. key)
    end
  elseif not keep then -- by far the most: a list keeps the order of their ends at a fifth of the cost
    completed[#completed + 1] = key
  end
end

-- Somebody asked the job to stop: however its attempt ends, this is the job's end.
local function obeyed(record, key, job)
  if #job.marks > 0 and mark(job.marks, 'cancel') then
    finish(record, key, job, 'cancelled', body(job.attempt, 'cancelled', job.owner, call('HGET', record, 'cancel') or ''))
    return 'cancelled'
  end
end

-- A job that is to go on, but cannot, ends failed.
local function stranded(record, key, job)
  if not can_go_on(key, job) then
    finish(record, key, job, 'failed', body(job.attempt, 'failed', job.owner, ',"reason":"entry","error":{"type":' ..
      '"EntryLost","message":"its entry was deleted from the stream by hand, and its args with it"}'))
    return 'failed'
  end
end

-- Whether a job was started as often as it may be; one that was reopened counts from there on.
local function worn_out(record, job, max_starts)
  max_starts = tonumber(max_starts)
  return tonumber(job.attempt) >= max_starts and job.attempt - (call('HGET', record, 'earlier') or 0) >= max_starts
end

-- A job that was started too often never comes back: it would circle for ever.
local function circles(record, key, job, max_starts)
  if worn_out(record, job, max_starts) then
    finish(record, key, job, 'failed', body(job.attempt, 'failed', job.owner, ',"reason":"starts","error":{"type":' ..
      '"TooManyStarts","message":"it was started ' .. job.attempt .. ' times and never ended"}'))
    return 'failed'
  end
end

-- In strict order nothing of the platform starts before a job that waits for another attempt.
local function keep_place(key, job)
  if #job.marks > 0 and mark(job.marks, 'strict') then
    call('ZADD', unfinished, acceptance(job.entry), key)
  end
end

-- Every "back in line": the job goes before newer ones of its priority. It is not stranded.
-- `suspect`: it waits for a process that runs nothing else.
local function back_in_line(record, key, job, reason, suspect)
  local seq = emit(key, job, body(job.attempt, 'superseded', job.owner, ',"reason":"' .. reason .. '"'))
  call('HSET', record, 'state', 'waiting', 'seq', seq)
  if hold_entry(record, key, job) or suspect then
    call('ZADD', suspect and suspects or fronts[job.band], acceptance(job.entry), key)
  end
  keep_place(key, job)
  let_go(key, job, false)
  ring()
end

-- A wait with a length begins. It is kept beside its time, and so is the latest time of the clock: should the clock be
-- set back, the wait lasts no longer than that; see clock.lua.
local function note_length(record, length_ms)
  call('HSET', record, 'rest_ms', length_ms)
  if tonumber(call('HGET', control, 'latest_ms') or 0) < tonumber(now_ms) then
    call('HSET', control, 'latest_ms', now_ms)
  end
end

-- Until when the platform is held because a handler found a rate exceeded; after the clock was set back no longer than
-- for the hold's own length.
local function held_until()
  local hold = call('HMGET', control, 'held_until_ms', 'held_ms')
  local until_ms, length = tonumber(hold[1] or 0) or 0, tonumber(hold[2] or nil)
  if length and until_ms - now_ms > length then
    until_ms = now_ms + length
    call('HSET', control, 'held_until_ms', format('%.0f', until_ms))
  end
  return until_ms
end

-- Every "not before": the job rests until its time. It is not stranded.
local function rest(record, key, job, until_ms, event, skip, length_ms)
  local seq = emit(key, job, event)
  call('HSET', record, 'state', 'delayed', 'seq', seq)
  note_length(record, length_ms)
  hold_entry(record, key, job)
  call('ZADD', due, until_ms, key)
  keep_place(key, job)
  let_go(key, job, skip)
  ring()
end

-- What a record tells of a job that nobody runs.
local function standing(record)
  local field = call('HMGET', record, 'state', 'seq', 'entry', 'band', 'attempt', 'marks')
  return field[1], { seq = field[2] or 1, entry = field[3], band = field[4] or 'normal', attempt = field[5],
    marks = field[6] and ' ' .. field[6] or '' }
end

-- A job that nobody runs leaves every place it may stand at.
local function leave(key, job)
  call('ZREM', fronts[job.band], key)
  call('ZREM', fronts.urgent, key) -- where one that was submitted as the first of all stands
  call('ZREM', due, key)
  call('ZREM', suspects, key)
  if call('ZREM', unfinished, key) == 1 then -- it held up all others
    ring()
  end
  local limit = mark(job.marks, 'limit')
  if limit then
    call('ZREM', prefix .. 'parked:' .. limit, key)
  end
end

-- The entry of a waiting job, for the owner that starts it, by force if need be. Nothing, when it is gone, or when it
-- comes from the line itself; `now`: it does not wait for that.
local function take_entry(key, band, entry, owner, now)
  local found = redis.pcall('XCLAIM', jobs[band], GROUP, owner, 0, entry)[1]
  if found then
    return found
  end
  local record = prefix .. 'job:' .. key
  local _, job = standing(record)
  if stranded(record, key, job) then
    return leave(key, job)
  end
  local held_back = hold_entry(record, key, job)
  if now and not held_back then
    hold_by_force(band, job.entry)
  end
  if now or held_back then
    return call('XCLAIM', jobs[band], GROUP, owner, 0, job.entry)[1]
  end
end

-- Ends other than completion, and what leads to them. After events.lua.
local ends = {}

local ERROR_TYPE = 50 -- bytes of the type of an error in `ended_errors`

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

-- A job that was not completed may be tried again: its args, which would go with its entry, are kept, and its error.
function ends.keep(record, key, job, state, event, seq)
  call('HSET', record, 'seq', seq)
  call('HINCRBY', control, state, 1)
  local found = call('XRANGE', jobs[job.band], job.entry, job.entry)[1]
  if found and found[2][4] then
    call('SET', key_of('args', key), found[2][4])
  end
  call('ZADD', state == 'failed' and ended_failed or ended_cancelled, now_ms, key)
  if state == 'failed' then
    local error_type = error_of(event)
    call('HSET', record, 'error', error_type)
    call('ZADD', ended_errors, 0, error_type .. '\t' .. key)
  end
end

-- The end of a job with marks: what they hold is given back. Answers whether the job is kept for a time of its own.
function ends.heed_marks(key, job)
  local keep, dedupe = mark(job.marks, 'keep'), mark(job.marks, 'dedupe')
  if dedupe and call('GET', key_of('dedupe', dedupe)) == key then
    call('DEL', key_of('dedupe', dedupe))
  end
  places.let_go(key, job, true)
  if keep then
    call('ZADD', ended_kept, now_ms + keep * 1000, key)
  end
  return keep
end

-- A job is no longer one of the failed ones.
function ends.leave_failed(key)
  if call('ZREM', ended_failed, key) == 1 then
    local error_type = redis.pcall('HGET', key_of('job', key), 'error') -- protected: it may be corrupt
    if type(error_type) == 'string' then
      call('ZREM', ended_errors, error_type .. '\t' .. key)
    end
  end
end

-- A job that is to go on, but cannot, ends failed.
function ends.stranded(record, key, job)
  if not entries.can_go_on(key, job) then
    finish(record, key, job, 'failed', body(job.attempt, 'failed', job.owner, ',"reason":"entry","error":{"type":' ..
      '"EntryLost","message":"its entry was deleted from the stream by hand, and its args with it"}'))
    return 'failed'
  end
end

-- A job with corrupt args can never start, and in strict order would hold up all others: it ends failed.
function ends.corrupt(record, key)
  local _, job = places.standing(record)
  places.leave(key, job)
  finish(record, key, job, 'failed', body(job.attempt, 'failed', nil, ',"reason":"corrupt","error":{"type":' ..
    '"CorruptJob","message":"its args key in the store is not a string"}'))
end

-- Whether a job was started as often as it may be; one that was reopened counts from there on.
function ends.worn_out(record, job, max_starts)
  max_starts = tonumber(max_starts)
  return tonumber(job.attempt) >= max_starts and job.attempt - (call('HGET', record, 'earlier') or 0) >= max_starts
end

-- A job that was started too often never comes back: it would circle for ever.
function ends.circles(record, key, job, max_starts)
  if ends.worn_out(record, job, max_starts) then
    finish(record, key, job, 'failed', body(job.attempt, 'failed', job.owner, ',"reason":"starts","error":{"type":' ..
      '"TooManyStarts","message":"it was started ' .. job.attempt .. ' times and never ended"}'))
    return 'failed'
  end
end

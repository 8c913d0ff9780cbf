-- retention: what is kept of ended jobs, and how it is removed.
-- KEYS  jobs control alarms ended_failed ended_errors ended_cancelled ended_kept

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
function retention.keep(record, key, job, state, event, seq)
  call('HSET', record, 'seq', seq)
  call('HINCRBY', keys.control, state, 1)
  local found = call('XRANGE', keys.jobs[job.band], job.entry, job.entry)[1]
  if found and found[2][4] then
    call('SET', key_of('args', key), found[2][4])
  end
  call('ZADD', state == 'failed' and keys.ended_failed or keys.ended_cancelled, now_ms, key)
  if state == 'failed' then
    local error_type = error_of(event)
    call('HSET', record, 'error', error_type)
    call('ZADD', keys.ended_errors, 0, error_type .. '\t' .. key)
  end
end

-- The job gives its de-duplication key back.
function retention.free_dedupe(label, key)
  if call('GET', key_of('dedupe', label)) == key then
    call('DEL', key_of('dedupe', label))
  end
end

-- A failed or cancelled job is on none of the lists of those any more.
function retention.leave(key)
  if call('ZREM', keys.ended_failed, key) == 1 then
    local error_type = redis.pcall('HGET', key_of('job', key), 'error') -- protected: it may be corrupt
    if type(error_type) == 'string' then
      call('ZREM', keys.ended_errors, error_type .. '\t' .. key)
    end
  end
  call('ZREM', keys.ended_cancelled, key)
  call('ZREM', keys.ended_kept, key)
end

-- Every key of ended jobs goes.
function retention.remove(jobs)
  local all, alarms = {}, {}
  for _, key in ipairs(jobs) do
    local record = key_of('job', key)
    local dedupe = redis.pcall('HGET', record, 'dedupe')
    if type(dedupe) == 'string' then
      pcall(retention.free_dedupe, dedupe, key) -- protected: one job with corrupt keys must not keep those of others
    end
    all[#all + 1] = record
    for _, word in ipairs({ 'log', 'args', 'steps', 'children', 'signals' }) do
      all[#all + 1] = key_of(word, key)
    end
    alarms[#alarms + 1] = '!' .. key
  end
  if #jobs > 0 then
    call('UNLINK', unpack(all))
    call('ZREM', keys.alarms, unpack(alarms))
  end
end

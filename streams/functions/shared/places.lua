-- places: where a job stands while no attempt runs it: at the front, beside the line, at rest.
-- Uses  entries history lease rates
-- KEYS  fronts unfinished suspects due alarms awaiting control limits orders

-- A job that waited for something else comes to the front of its priority. One that is there keeps its place, and so
-- does one that was submitted as the first of all: it stands at the front of the urgent ones, whatever its band.
function places.come_forward(key, score, band)
  if not call('ZSCORE', keys.fronts.urgent, key) then
    call('ZADD', keys.fronts[band or 'normal'], 'NX', score, key)
  end
  ring()
end

-- What waits for a label comes to the front, as many as may go on.
function places.unpark(label, count)
  local freed_jobs = call('ZPOPMIN', key_of('parked', label), count)
  for i = 1, #freed_jobs, 2 do
    local fine, band = pcall(call, 'HGET', key_of('job', freed_jobs[i]), 'band')
    places.come_forward(freed_jobs[i], freed_jobs[i + 1], fine and band)
  end
end

-- Parked jobs of a limit key come to the front: up to `wanted`, and no more than may start now by the platform's rules.
-- Each of them calls others when it starts, so none is forgotten; while the key's rate is closed an alarm does that.
-- Answers whether the alarm was set.
function places.call_parked(label, wanted, max_running_per_key, key_rate, key_rate_ms)
  if tonumber(max_running_per_key) > 0 then
    wanted = math.min(wanted, max_running_per_key - (call('HGET', keys.limits, label) or 0))
  end
  if tonumber(key_rate) > 0 and wanted > 0 and call('EXISTS', key_of('parked', label)) == 1 then
    local at
    wanted, at = rates.count_starts(key_of('starts', label), key_rate, key_rate_ms, wanted)
    if wanted == 0 then
      call('ZADD', keys.alarms, at, '*' .. label)
      return true
    end
  end
  if wanted > 0 then
    places.unpark(label, wanted)
  end
end

-- An attempt gives back what its marks hold. `over`: the job will not come back soon, so others of its order may pass.
function places.let_go(key, job, over)
  if #job.marks > 0 then
    local limit, order = lease.mark(job.marks, 'limit'), lease.mark(job.marks, 'order')
    if limit then
      if job.started and call('HINCRBY', keys.limits, limit, -1) <= 0 then -- it ran, and held one of the key's places
        call('HDEL', keys.limits, limit)
      end
      places.unpark(limit, 1) -- also when it did not run: it may have been called to a free place before it ended
    end
    if order then
      if call('HGET', keys.orders, order) == key then
        call('HDEL', keys.orders, order)
      end
      local line = key_of('order', order)
      if over then
        call('ZREM', line, key)
      end
      local head = call('ZRANGE', line, 0, 0, 'WITHSCORES')
      if head[1] and head[1] ~= key then
        local next_job = redis.pcall('HMGET', key_of('job', head[1]), 'state', 'band') -- protected: it may be corrupt
        if next_job[1] == 'waiting' then -- one that was not handed out yet comes by itself
          places.come_forward(head[1], head[2], next_job[2])
        end
      end
    end
  end
end

-- In strict order nothing of the platform starts before a job that waits for another attempt.
function places.keep_place(key, job)
  if #job.marks > 0 and lease.mark(job.marks, 'strict') then
    call('ZADD', keys.unfinished, entries.acceptance(job.entry), key)
  end
end

-- Every "back in line": the job goes before newer ones of its priority. It is not stranded.
-- `suspect`: it waits for a process that runs nothing else.
function places.back_in_line(record, key, job, reason, suspect)
  local seq = history.emit(key, job, history.body(job.attempt, 'superseded', job.owner, ',"reason":"' .. reason .. '"'))
  call('HSET', record, 'state', 'waiting', 'seq', seq)
  lease.drop(job)
  if entries.hold(record, key, job) or suspect then
    call('ZADD', suspect and keys.suspects or keys.fronts[job.band], entries.acceptance(job.entry), key)
  end
  places.keep_place(key, job)
  places.let_go(key, job, false)
  ring()
end

-- A wait with a length begins. It is kept beside its time, and so is the latest time of the clock: should the clock be
-- set back, the wait lasts no longer than that; see clock.lua.
function places.note_length(record, length_ms)
  call('HSET', record, 'rest_ms', length_ms)
  if tonumber(call('HGET', keys.control, 'latest_ms') or 0) < tonumber(now_ms) then
    call('HSET', keys.control, 'latest_ms', now_ms)
  end
end

-- Every "not before": the job rests until its time. It is not stranded.
function places.rest(record, key, job, until_ms, event, skip, length_ms)
  local seq = history.emit(key, job, event)
  call('HSET', record, 'state', 'delayed', 'seq', seq)
  lease.drop(job)
  places.note_length(record, length_ms)
  entries.hold(record, key, job)
  call('ZADD', keys.due, until_ms, key)
  places.keep_place(key, job)
  places.let_go(key, job, skip)
  ring()
end

-- The job awaits children or a signal, which the record says; until a time, if there is one, with its length. It is
-- not stranded. In strict order others start meanwhile: its children may be among them.
function places.await(record, key, job, event, skip, until_ms, length_ms)
  local seq = history.emit(key, job, event)
  call('HSET', record, 'state', 'awaiting', 'seq', seq)
  lease.drop(job)
  entries.hold(record, key, job)
  call('ZADD', keys.awaiting, now_ms, key)
  if until_ms then
    places.note_length(record, length_ms)
    call('HSET', record, 'until_ms', until_ms)
    call('ZADD', keys.alarms, until_ms, '^' .. key)
    ring()
  end
  places.let_go(key, job, skip)
end

-- A job that rested comes in line again, at the front of its priority. Others of its order may have passed it.
local function come_back(key, job, score)
  local order = lease.mark(job.marks, 'order')
  if order then
    call('ZADD', key_of('order', order), 'NX', score, key)
  end
  places.come_forward(key, score, job.band)
end

-- The time of a delayed job has come. If it slept, that sleep is over, whatever the clock says later.
function places.come_due(record, key, job)
  local score, place = entries.acceptance(job.entry), job.awaits and match(job.awaits, '^sleep (.*)$')
  if place then
    call('HSET', key_of('steps', key), place, 'true')
    call('HDEL', record, 'awaits')
  end
  call('HSET', record, 'state', 'waiting')
  come_back(key, job, score)
end

-- What a job awaits has come, or its time is over: from awaiting to waiting.
function places.go_on(record, key, job)
  local score = entries.acceptance(job.entry)
  call('HSET', record, 'state', 'waiting')
  call('HDEL', record, 'awaits', 'until_ms')
  call('ZREM', keys.awaiting, key)
  call('ZREM', keys.alarms, '^' .. key)
  come_back(key, job, score)
end

-- Nothing came in time. A signal that comes later does not change what this wait for it has answered.
function places.time_out(record, key, job)
  local place = match(job.awaits or '', '^signal %S+ (.*)$')
  if place then
    call('HSETNX', key_of('steps', key), place, '"timeout"')
  end
  places.go_on(record, key, job)
end

-- The facts in the record of a job that does not run.
function places.standing(record)
  local field = call('HMGET', record, 'state', 'seq', 'entry', 'band', 'attempt', 'marks', 'awaits')
  return field[1], { state = field[1], seq = field[2] or 1, entry = field[3], band = field[4] or 'normal',
    attempt = field[5], marks = field[6] and ' ' .. field[6] or '', awaits = field[7] }
end

-- A job that does not run leaves every place it may stand at.
function places.leave(key, job)
  call('ZREM', keys.fronts[job.band], key)
  call('ZREM', keys.fronts.urgent, key) -- where one that was submitted as the first of all stands
  call('ZREM', keys.due, key)
  call('ZREM', keys.suspects, key)
  if job.state == 'awaiting' then
    call('ZREM', keys.awaiting, key)
    call('ZREM', keys.alarms, '^' .. key)
  end
  if call('ZREM', keys.unfinished, key) == 1 then -- it held up all others
    ring()
  end
  local limit = lease.mark(job.marks, 'limit')
  if limit then
    call('ZREM', key_of('parked', limit), key)
  end
end

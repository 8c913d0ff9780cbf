-- tidy: put right one thing that a platform keeps about its jobs and that nothing else would put right.
-- Script  repairing
-- Uses  ends entries lease places
-- KEYS  jobs fronts suspects due awaiting leases limits orders ended_failed ended_cancelled idle called events
-- ARGV  what  lease | front | entry | limit | order | record | call
--       name  a nonce, a job, a band and an entry, a limit key, an order key, a job, nothing
--       seen  of a limit key: how many entries were ever added to the feed, and then the nonces of all leases that had it
--       act   1: put it right, 0: only look
-- Returns  fine: nothing is wrong with it | wrong | ok: it was put right | moved: too much happened since what was seen
flush_leases()
local STATES = { waiting = true, running = true, delayed = true, awaiting = true, completed = true, failed = true, cancelled = true }
local ENDED = { completed = true, failed = true, cancelled = true }
local NUMBERS = { 'seq', 'attempt', 'failures', 'crashes', 'earlier', 'ended_ms', 'first_ms', 'rest_ms', 'step_bytes',
  'until_ms', 'wanted', 'join_fails', 'join_failed' }

-- The state of a job; nothing of one that is not kept, or is no job.
local function state_of(key)
  local state = redis.pcall('HGET', key_of('job', key), 'state')
  return type(state) == 'string' and state or nil
end

local FEED_ENTRIES, EVENTS = 60, 500 -- since the leases were seen: about 1 MB
local PIECE = 1000 -- leases in one read

-- The jobs that had an event since the feed had this number of entries in all; nothing: there are too many, or the feed was cut.
local function in_the_news(since)
  local feed = {}
  if call('EXISTS', keys.events) == 1 then
    local told = call('XINFO', 'STREAM', keys.events)
    for i = 1, #told, 2 do
      feed[told[i]] = told[i + 1]
    end
  end
  local entries_since = (feed['entries-added'] or 0) - since
  if entries_since < 0 or entries_since > math.min(FEED_ENTRIES, feed.length or 0) then
    return
  end
  local jobs, count = {}, 0
  for _, entry in ipairs(entries_since > 0 and call('XREVRANGE', keys.events, '+', '-', 'COUNT', entries_since) or {}) do
    count = count + #entry[2] / 2
    for i = 1, #entry[2], 2 do
      jobs[match(entry[2][i], '^%S+')] = true
    end
    if count > EVENTS then
      return
    end
  end
  return jobs
end

-- How many jobs of a limit key run: those seen that still do, and those that started since, of which the feed tells.
-- Nothing: the feed cannot tell.
local function running_of(label, seen)
  local jobs = in_the_news(tonumber(match(seen, '^%d+')))
  if not jobs then
    return
  end
  local nonces, known = {}, {}
  for nonce in string.gmatch(match(seen, '^%d+(.*)'), '%S+') do
    nonces[#nonces + 1], known[nonce] = nonce, true
  end
  for job in pairs(jobs) do
    local nonce = redis.pcall('HGET', key_of('job', job), 'nonce')
    if type(nonce) == 'string' and not known[nonce] then
      nonces[#nonces + 1], known[nonce] = nonce, true
    end
  end
  local running = 0
  for first = 1, #nonces, PIECE do
    for _, text in ipairs(call('HMGET', keys.leases, unpack(nonces, first, math.min(#nonces, first + PIECE - 1)))) do
      local _, job = lease.read(text or '')
      if job and lease.mark(job.marks, 'limit') == label then
        running = running + 1
      end
    end
  end
  return running
end

local found = {} -- what -> whether it is wrong: what puts it right; or an answer

-- A lease under which no attempt runs keeps a slot for nothing.
function found.lease(nonce)
  local text = call('HGET', keys.leases, nonce)
  if not text then
    return
  end
  local key, job = lease.read(text, nonce)
  local known = key and redis.pcall('HMGET', key_of('job', key), 'nonce', 'state')
  if known and known[1] == nonce and known[2] == 'running' then
    return
  end
  return function()
    if not job then
      call('HDEL', keys.leases, nonce)
      return ring()
    end
    lease.drop(job)
    flush_leases()
    local state = state_of(key)
    -- Under another nonce it holds its order again; what its limit key counted for this lease it gives back.
    local limit = lease.mark(job.marks, 'limit')
    local held_marks = state ~= 'running' and job.marks or limit and ' limit=' .. limit or ''
    places.let_go(key, { marks = held_marks, started = job.started }, not state or ENDED[state])
  end
end

-- A place at the front is for a job that waits.
function found.front(key)
  local at = {}
  for _, front in ipairs({ keys.suspects, keys.fronts.urgent, keys.fronts.high, keys.fronts.normal, keys.fronts.low }) do
    if call('ZSCORE', front, key) then
      at[#at + 1] = front
    end
  end
  return #at > 0 and state_of(key) ~= 'waiting' and function()
    for _, front in ipairs(at) do
      call('ZREM', front, key)
    end
  end
end

-- An entry is for a job that is kept, and has no other.
function found.entry(name)
  local band, entry = match(name, '^(%S+) (%S+)$')
  local there = call('XRANGE', keys.jobs[band], entry, entry)[1]
  local known = there and redis.pcall('HGET', key_of('job', there[2][2]), 'entry')
  return there and known ~= entry and function()
    add(settled, band, entry)
  end
end

-- A limit key counts the leases that have it. What waits for it comes to the front when there are fewer than it said.
function found.limit(label)
  local counted, running = tonumber(call('HGET', keys.limits, label) or 0) or -1, running_of(label, seen)
  if not running then
    return 'moved'
  end
  return counted ~= running and function()
    if running > 0 then
      call('HSET', keys.limits, label, running)
    else
      call('HDEL', keys.limits, label)
    end
    places.unpark(label, math.max(1, counted - running))
  end
end

-- An order is held by a job that runs.
function found.order(label)
  local holder = call('HGET', keys.orders, label)
  local state = holder and state_of(holder)
  return holder and state ~= 'running' and function()
    places.let_go(holder, { marks = ' order=' .. label }, not state or ENDED[state])
  end
end

-- What a record must have is made of the rest of it, of its lease, its place in line and its history. A job of which too
-- little is left to run it ends failed.
function found.record(key)
  local record = key_of('job', key)
  local field = call('HMGET', record, 'state', 'entry', 'band', 'kind', 'nonce', 'fingerprint', 'accepted')
  local state, entry, band, kind, nonce = unpack(field, 1, 5)
  local readable = STATES[state] and match(entry or '', '^%d+%-%d+$') and kind and field[6]
    and (not band or keys.jobs[band]) and (not field[7] or match(field[7], '^%d+'))
  local numbers = call('HMGET', record, unpack(NUMBERS))
  for _, number in ipairs(numbers) do
    readable = readable and (not number or match(number, '^%-?%d+$'))
  end
  if readable or call('EXISTS', record) == 0 then
    return
  end
  return function()
    for i, number in ipairs(numbers) do
      if number and not match(number, '^%-?%d+$') then
        call('HDEL', record, NUMBERS[i])
      end
    end
    local log = key_of('log', key)
    local written = call('LLEN', log) + 1
    if field[7] and not match(field[7], '^%d+') then
      call('HDEL', record, 'accepted')
    end
    if band and not keys.jobs[band] then
      call('HDEL', record, 'band')
      band = nil
    end
    local whole = kind and match(entry or '', '^%d+%-%d+$')
    call('HSETNX', record, 'kind', 'unknown')
    call('HSETNX', record, 'fingerprint', '')
    if not match(entry or '', '^%d+%-%d+$') then
      entry = now_ms .. '-0'
      call('HSET', record, 'entry', entry)
    end
    local _, job = places.standing(record)
    job.seq = math.max(written, tonumber(job.seq))
    local last = match(call('LRANGE', log, -1, -1)[1] or '', '^%d+%-%d+ %S+ (%S+)')
    if ENDED[last] then -- its end is in its history
      call('HSET', record, 'state', last, 'ended_ms', now_ms, 'seq', job.seq)
      if last == 'completed' then
        completed[#completed + 1] = key
      else
        call('ZADD', last == 'failed' and keys.ended_failed or keys.ended_cancelled, now_ms, key)
      end
    elseif whole and nonce and lease.read(call('HGET', keys.leases, nonce) or '') == key then
      call('HSET', record, 'state', 'running')
    elseif whole and entries.can_go_on(key, job) then
      local rests = call('ZSCORE', keys.due, key) and 'delayed' or call('ZSCORE', keys.awaiting, key) and 'awaiting'
      call('HSET', record, 'state', rests or 'waiting')
    else
      places.leave(key, job)
      ends.fail(record, key, job, 'corrupt', 'CorruptJob', 'its record in the store was damaged')
    end
  end
end

-- A job may start, and no consumer was called for it.
function found.call()
  return call('ZCARD', keys.idle) > 0 and call('ZCARD', keys.called) == 0 and ring
end

local correct = found[what](name)
if not correct then
  return 'fine'
elseif type(correct) == 'string' then
  return correct
elseif act == '0' then
  return 'wrong'
end
correct()
return 'ok'

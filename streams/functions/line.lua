-- line: see who stands in line, in the order a claim would take them, and what may hold them up; bounded.
-- KEYS  jobs_urgent      stream  the lines
--       jobs_high        stream
--       jobs_normal      stream
--       jobs_low         stream
--       front            zset    jobs that go first
--       due              zset    those whose time has come go there too, with the next claim
--       leases           hash    who runs what
--       control          hash    whether the platform is paused or held
--       starts           list    the last starts
--       limits           hash    how many jobs of a limit key run
--       orders           hash    which job of an order key runs
--       ended_completed  list    the last ones tell how long a job takes
-- ARGV  most         how many jobs to look at
--       recent       how many completed ones
--       rate         how many may start within a window, 0: any number
--       key_rate     the same for one limit key
--       key_rate_ms  the length of that window
-- Returns  seven lists: <now in ms> <paused by> <held until> <start that the rate counts from> <1: nobody was left out> <how many run>; key, owner, started, marks of who runs, of hundreds only some; key, entry, marks of who waits; key, score of those at the front; key, 1 if it may also be called to the front, of those in line; label, running, free starts, {key, score of who waits for it} of limit keys and label, running, {key, score} of order keys; started, ended_ms of completed jobs
most = tonumber(most)
local PIECE, BYTES = 100, 4 * 1024 * 1024 -- entries in one read; args that come along with all of them
local LEASES = 200 -- that are looked at: they tell who holds what, and few are named
local whole = '1'

local function append(list, ...)
  for i = 1, select('#', ...) do
    list[#list + 1] = (select(i, ...))
  end
end

-- Labels in the order they were met: behind each may stand jobs that are in no line now.
local met = { limit = {}, order = {} }
local function meet(marks)
  for name, labels in pairs(met) do
    local label = mark(marks, name)
    if label and not labels[label] then
      labels[label], labels[#labels + 1] = true, label
    end
  end
end

local waiting, entries, bands = {}, {}, {}
local function waits(key, state)
  if not entries[key] then
    local job = redis.pcall('HMGET', prefix .. 'job:' .. key, 'state', 'entry', 'marks', 'band')
    if job[1] ~= state or not job[2] then
      return false
    end
    local n = #waiting
    waiting[n + 1], waiting[n + 2], waiting[n + 3] = key, job[2], job[3] or ''
    entries[key], bands[key] = job[2], job[4]
    if job[3] then
      meet(' ' .. job[3])
    end
  end
  return true
end

-- One that was not handed out yet cannot be taken from the front: it comes by itself, in its line.
local ahead = {}
local function goes_first(key, score, state)
  if waits(key, state) then
    local pending = redis.pcall('XPENDING', jobs[bands[key] or 'normal'], GROUP, entries[key], entries[key], 1)
    if #pending > 0 then
      append(ahead, key, score)
    end
  end
end

local first = call('ZRANGE', front, 0, most - 1, 'WITHSCORES')
for i = 1, #first, 2 do
  goes_first(first[i], first[i + 1], 'waiting')
end
for _, key in ipairs(call('ZRANGE', due, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, 100)) do
  goes_first(key, '', 'delayed')
end

local line, looked, bytes = {}, #first / 2, 0
for _, band in ipairs(BANDS) do
  local last, done = '0-0', false
  for _, facts in ipairs(redis.pcall('XINFO', 'GROUPS', jobs[band])) do -- protected: there may be no such line
    local group = {}
    for i = 1, #facts, 2 do
      group[facts[i]] = facts[i + 1]
    end
    last = group.name == GROUP and group['last-delivered-id'] or last
  end
  local pends = {}
  for _, pending in ipairs(redis.pcall('XPENDING', jobs[band], GROUP, '(' .. last, '+', most)) do
    pends[pending[1]] = '1'
  end
  while not done and looked < most and bytes < BYTES do
    local piece = call('XRANGE', jobs[band], '(' .. last, '+', 'COUNT', PIECE)
    for _, entry in ipairs(piece) do
      local key = entry[2][2]
      if waits(key, 'waiting') and entries[key] == entry[1] then
        local n = #line
        line[n + 1], line[n + 2] = key, pends[entry[1]] or '0'
      end
      last, looked, bytes = entry[1], looked + 1, bytes + #(entry[2][4] or '')
    end
    done = #piece < PIECE
  end
  if not done then
    whole = '0'
  end
end

local running, runs = {}, call('HLEN', leases)
local some = {}
if runs <= LEASES then
  some = call('HVALS', leases)
else
  local found = call('HSCAN', leases, 0, 'COUNT', LEASES)[2] -- nonce and lease in turn; may be a few more
  for n = 2, math.min(#found, 2 * LEASES), 2 do
    some[#some + 1] = found[n]
  end
end
for _, lease in ipairs(some) do
  local key, started, owner, marks = match(lease, '^%d+ %d+ (%S+) (%S+) %S+ (%S+) %S+ %S+ %d+(.*)$')
  if key then
    if started == '-' then -- it stands in the history by now
      started = redis.pcall('HGET', prefix .. 'job:' .. key, 'started')
    end
    append(running, key, owner, type(started) == 'string' and started or '', marks)
    meet(marks)
  end
end

-- How many jobs of a limit key its rate lets start now: as many as the list lacks, and as many as there are before the
-- first start that still counts. That is mostly the first; else it is looked for by halves: the list may be long.
local function free_starts(label)
  local times = prefix .. 'starts:' .. label
  local length = call('LLEN', times)
  local oldest = math.max(0, length - key_rate) -- a rate that was lowered has left more than count
  local low, middle, high = oldest, oldest, length
  while low < high do
    if math.abs(now_ms - call('LINDEX', times, middle)) < tonumber(key_rate_ms) then
      high = middle
    else
      low = middle + 1
    end
    middle = math.floor((low + high) / 2)
  end
  return key_rate - length + low
end

-- Those that wait beside the line; they may bring more labels with them.
local limited, ordered, i, j, beside = {}, {}, 1, 1, 0
while (met.limit[i] or met.order[j]) and beside < most do
  local label = met.limit[i] or met.order[j]
  local members = call('ZRANGE', prefix .. (met.limit[i] and 'parked:' or 'order:') .. label, 0, PIECE - 1, 'WITHSCORES')
  if met.limit[i] then
    local free = tonumber(key_rate) > 0 and format('%d', free_starts(label))
    append(limited, label, call('HGET', limits, label) or '0', free, members)
    i = i + 1
  else
    local key = call('HGET', orders, label)
    local runs = key and call('HGET', prefix .. 'job:' .. key, 'state') == 'running'
    append(ordered, label, runs and key, members)
    j = j + 1
  end
  for n = 1, #members, 2 do
    waits(members[n], 'waiting')
  end
  beside = beside + 1 + #members / 2
end
if met.limit[i] or met.order[j] then
  whole = '0'
end

local took = {}
for _, key in ipairs(call('LRANGE', ended_completed, -recent, -1)) do
  local times = redis.pcall('HMGET', prefix .. 'job:' .. key, 'started', 'ended_ms')
  if times[1] and times[2] then
    append(took, times[1], times[2])
  end
end

local state = call('HMGET', control, 'paused', 'held_until_ms')
local oldest = tonumber(rate) > 0 and call('LINDEX', starts, -rate)
return { { now_ms, state[1], state[2], oldest, whole, runs }, running, waiting, ahead, line, { limited, ordered }, took }

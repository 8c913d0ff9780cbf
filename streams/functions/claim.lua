-- claim: open attempts for as many jobs as there is room for, band by band, the front of each before its line.
-- Script  settling
-- Uses  calls ends entries gates history lease places rates waking
-- KEYS  jobs fronts unfinished suspects due alarms awaiting leases control starts idle called
-- ARGV  owner        the consumer that claims
--       deadline_ms  its silence after which the lease counts as lost
--       company      what else its process runs: some | none | locked: nothing, and nothing starts before the answer
--       nonces       one fence per free slot, separated by spaces; may be empty
-- Rules  max_crashes max_running lane order share rate rate_ms max_running_per_key key_rate key_rate_ms
-- Returns  <ms after which the caller is to look again, or nothing> <alone: the process is to run nothing else beside this job | empty: it is to take nothing more until it is empty | nothing> then of each job nonce, key, kind, args and past: ms it waited, or, unless this is the first attempt at a job without options, <attempt> <failures> <age in ms> <ms it waited, or nothing> <options, or nothing>
local wanted = {}
for nonce in string.gmatch(nonces, '%S+') do
  wanted[#wanted + 1] = nonce
end
flush_leases()

local answer, taken, handed = { '', '' }, 0, 0

-- An entry's fields are `id`, the key and, unless they are kept beside it, `args` and the payload.
local function hand_over(nonce, key, kind, fields, past)
  local n = 2 + 5 * handed
  handed = handed + 1
  local args = fields[4] or call('GET', key_of('args', key)) or ''
  answered = answered + #args
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4], answer[n + 5] = nonce, key, kind, args, past
end

-- The past of a job, in full; each value that is answered costs time.
local function past_of(attempt, failures, age, waited, options)
  return attempt .. ' ' .. failures .. ' ' .. age .. ' ' .. waited .. ' ' .. (options or '')
end

-- Of a job that was started before: how often it failed, and for how long it has been tried.
local function tried(record)
  local job = call('HMGET', record, 'failures', 'first_ms', 'started')
  local first_ms = job[2] or job[3] and match(job[3], '%-(%d%d%d%d%d%d%d%d%d%d%d%d%d)') or now_ms
  if not job[2] then
    call('HSET', record, 'first_ms', first_ms)
  end
  return job[1] or '0', format('%d', now_ms - first_ms)
end

-- What an unheard answer gave is given again, under the same fences. Every call looks, not only one that is known to be
-- a repetition: on another link the first send may arrive after it, and a nonce must never stand for two jobs.
if #wanted > 0 and (vacated > 0 or call('EXISTS', keys.leases) == 1) then -- where nothing runs, none of them is taken
  local fresh, alone = {}, false
  for i, text in ipairs(call('HMGET', keys.leases, unpack(wanted))) do
    if text then
      held[wanted[i]], touched[wanted[i]] = text, true -- a write, for a WAIT behind this call, as in `lease.own`
      local key, given = lease.read(text)
      local job = call('HMGET', key_of('job', key), 'attempt', 'kind', 'options', 'marks')
      local found = call('XRANGE', keys.jobs[given.band], given.entry, given.entry)[1]
      local failures, age = tried(key_of('job', key))
      hand_over(wanted[i], key, job[2], found and found[2] or {},
        past_of(job[1], failures, age, '', lease.options_of(job[3], job[4])))
      company, alone = 'some', alone or lease.mark(given.marks, 'alone')
    else
      fresh[#fresh + 1] = wanted[i]
    end
  end
  wanted = alone and {} or fresh
  answer[2] = alone and 'alone' or ''
end

-- Most often no consumer was called or is idle, and all jobs are of normal priority: one look instead of many.
local calm = call('EXISTS', keys.called, keys.idle, keys.jobs.urgent, keys.jobs.high, keys.jobs.low) == 0
local called_us = not calm and calls.come(owner)

-- The gates of the platform: each lessens the room, or says when to come again.
local room = #wanted
local opens -- when the platform's hold or rate lets another start
local fronts = keys.fronts
local plain = call('EXISTS', keys.unfinished, keys.suspects, keys.due, keys.alarms, keys.awaiting, keys.control, fronts.urgent,
  fronts.high, fronts.normal, fronts.low) == 0 -- as most are: there is nothing but the lines
local state = plain and {} or call('HMGET', keys.control, 'paused', 'held_until_ms', 'timekeeper', 'lane',
  'lane_since_us', 'lane_free_ms', 'reserved')
if state[1] then
  room = 0
elseif state[2] then
  local until_ms = rates.held_until()
  if until_ms > tonumber(now_ms) then
    room, opens = 0, until_ms
  end
end
if (state[4] or '') ~= lane then
  call('HSET', keys.control, 'lane', lane)
end
if tonumber(max_running) > 0 then
  local free = gates.free_slots(max_running)
  if #lane > 0 and math.min(room, free) > 0 then
    local turn
    free, turn = calls.lane_room(lane, free, state[5], state[6])
    opens = turn or opens
  end
  room = math.min(room, free)
end

local rated = tonumber(rate) > 0
if rated then
  local at
  room, at = rates.count_starts(keys.starts, rate, rate_ms, math.max(0, room))
  opens = at or opens
end

local alarmed -- whether a time was set at which parked jobs may go on

-- Whether an answer would grow too large with one more job. The first may have any size; args of some KB do not count.
local stopped = false
local function too_large(size)
  stopped = stopped or (taken > 0 and answered + size > ANSWER_BYTES)
  return stopped
end

-- The size of args beside their entry; nothing when the key is corrupt.
local function args_size(key)
  local size = redis.pcall('STRLEN', key_of('args', key))
  return type(size) == 'number' and size or nil
end

local passed = false -- whether a job was left to another owner
local more           -- whether there may be more than was looked at

-- What this call may still look at, in jobs from a line. One from the front takes three times as long, and one that needs
-- an order or a limit key twice.
local MOST_WORK = 60
local FROM_FRONT, WITH_MARKS = 3, 1
local left = math.max(MOST_WORK, room)

-- How many milliseconds have passed since then. Jobs that were submitted together have the same answer.
local waits = {}
local function wait_since(ms)
  local wait = waits[ms]
  if not wait then
    wait = format('%d', math.max(0, now_ms - ms))
    waits[ms] = wait
  end
  return wait
end

local function open(band, entry, fields, alone)
  local key = fields[2]
  local record = key_of('job', key)
  local job = call('HMGET', record, 'state', 'entry', 'kind', 'attempt', 'seq', 'options', 'marks')
  if not job[1] then -- the job is not kept any more: the entry is a leftover
    add(settled, band, entry)
    return
  end
  if job[1] ~= 'waiting' or job[2] ~= entry then -- it rests, or came to run from the front, before its turn in the line
    if job[2] == entry then
      gates.park(band, entry)
    end
    return
  end
  if job[4] and not alone and (call('HGET', record, 'crashes') or -1) + 1 >= tonumber(max_crashes) then
    -- It may be what kills its workers, and takes jobs beside it along; or one of those did. On its last chance it runs
    -- alone: then its loss tells.
    gates.park(band, entry)
    call('ZREM', fronts[band], key)
    call('ZADD', keys.suspects, entries.acceptance(entry), key)
    passed, more = true, true
    return
  end
  local size = fields[4] and 0 or args_size(key)
  if not size then
    -- It can never start, and in strict order would hold up all others.
    local _, standing = places.standing(record)
    places.leave(key, standing)
    ends.fail(record, key, standing, 'corrupt', 'CorruptJob', 'its args key in the store is not a string')
    return
  end
  if too_large(size) then -- it was read, and stays at the front until the next call
    gates.park(band, entry)
    places.come_forward(key, entries.acceptance(entry), band)
    return
  end
  if job[7] then
    left = left - WITH_MARKS
    local admitted, alarm = gates.admit(band, entry, key, ' ' .. job[7], max_running_per_key, key_rate, key_rate_ms)
    alarmed = alarmed or alarm
    if not admitted then
      return
    end
  end
  local nonce, attempt, seq = wanted[taken + 1], history.plus_one(job[4] or '0'), history.plus_one(job[5] or '1')
  local started = history.next_id(seq)
  taken = taken + 1
  local past = ''
  if not job[5] then -- nothing has happened to it since it was accepted, so it has waited since then
    past = wait_since(match(entry, '^%d+'))
  end
  if job[4] then
    local failures, age = tried(record)
    past = past_of(attempt, failures, age, past, lease.options_of(job[6], job[7]))
    call('ZREM', fronts[band], key)
    call('ZREM', keys.unfinished, key)
  elseif job[6] or job[7] then
    past = past_of(attempt, '0', '0', past, lease.options_of(job[6], job[7]))
  end
  call('HSET', record, 'state', 'running', 'attempt', attempt, 'nonce', nonce, 'owner', owner, 'started', started)
  history.tell(key, seq, history.started(started, attempt, owner))
  lease.grant(nonce, seq, key, started, attempt, owner, band, entry, deadline_ms,
    lease.marks_of(alone, order == 'strict', job[7]))
  hand_over(nonce, key, job[3], fields, past)
end

-- Takes a job by its name, by force if need be; answers whether it started.
local function take(key, band, entry, now, alone)
  local before = taken
  local fine, found = pcall(entries.take, key, band, entry, owner, now)
  if fine and found then
    pcall(open, band, found[1], found[2], alone)
  end
  return taken > before
end

local slots = room -- before the order of those in line lessens it
local function take_suspect()
  for _, key in ipairs(call('ZRANGE', keys.suspects, 0, 99)) do
    local job = redis.pcall('HMGET', key_of('job', key), 'band', 'entry', 'state')
    call('ZREM', keys.suspects, key)
    if job[3] == 'waiting' and take(key, job[1] or 'normal', job[2], true, true) then
      call('HDEL', keys.control, 'reserved')
      room, answer[2], more = taken, 'alone', false
      return
    end
  end
end

local expiring = false
if not plain then
  local brought_due
  brought_due, expiring, more = waking.bring_due(max_running_per_key, key_rate, key_rate_ms)
  left = left - brought_due
end
if expiring then -- among those in line may be some that must not start any more
  room = 0
end
local brought = rings -- for this many jobs others would have been called: this claim looks at them first
rings = 0

-- Takes from the front of a band, up to a goal; those below a score, if there is one.
local function take_front(band, goal, below)
  local front = fronts[band]
  while taken < goal and left > 0 and not stopped do
    local count = math.min(goal - taken, math.ceil(left / FROM_FRONT))
    local first = call('ZRANGE', front, '-inf', below or '+inf', 'BYSCORE', 'LIMIT', 0, count)
    if #first == 0 then
      return
    end
    left = left - FROM_FRONT * #first
    for _, key in ipairs(first) do
      if too_large(args_size(key) or 0) then -- a corrupt key is not needed when the entry holds the args
        return
      end
      local job = redis.pcall('HMGET', key_of('job', key), 'band', 'entry', 'state')
      call('ZREM', front, key)
      if job[3] == 'waiting' then
        take(key, job[1] or 'normal', job[2])
      end
    end
  end
end

if room > 0 and not plain and call('EXISTS', keys.suspects) == 1 then
  if company == 'locked' then
    take_suspect()
  elseif calls.empties(owner, company, state[7]) then
    room, slots, passed, answer[2] = 0, 0, true, 'empty'
  end
end

-- Strict order: a job that waits for another attempt goes before all others, whatever its priority, and until it has
-- started nothing else does.
if order == 'strict' and taken < room and not plain then
  local blocked, suspected = false, call('EXISTS', keys.suspects) == 1
  for _, key in ipairs(call('ZRANGE', keys.unfinished, 0, room + 99)) do
    local job = redis.pcall('HMGET', key_of('job', key), 'band', 'entry', 'state')
    local before = taken
    if job[3] == 'waiting' and taken < room and not (suspected and call('ZSCORE', keys.suspects, key)) then
      take(key, job[1] or 'normal', job[2], true)
    end
    if taken == before then
      if job[2] and (job[3] == 'waiting' or job[3] == 'delayed') then
        blocked = true
      else
        call('ZREM', keys.unfinished, key) -- it is gone, or was started by other rules
      end
    end
  end
  if blocked then
    room = taken
  end
end

local function take_from(band, most)
  local goal = math.min(room, taken + most)
  if not plain then
    take_front(band, goal)
  end
  local asked, given = 0, 0
  while taken < goal and left > 0 and given == asked and not stopped do -- fewer than asked: there are no more
    asked = math.min(goal - taken, left)
    local command = { 'XREADGROUP', 'GROUP', GROUP, owner, 'COUNT', asked, 'STREAMS', keys.jobs[band], '>' }
    local reply = redis.pcall(unpack(command))
    if reply and reply.err then -- a new stream, or its group was destroyed: begin at its first entry
      reply = call('EXISTS', keys.jobs[band]) == 1 and call('XGROUP', 'CREATE', keys.jobs[band], GROUP, 0)
        and call(unpack(command))
    end
    if not reply then
      return
    end
    given = #reply[1][2]
    left = left - given
    for _, entry in ipairs(reply[1][2]) do -- protected: a job with corrupt keys holds up no other
      pcall(open, band, entry[1], entry[2])
    end
  end
end

if room > 0 and not plain then -- those that were submitted as the first of all stand below 0
  take_front('urgent', room, '(0')
end
if taken < room then
  local lines = {}
  for _, band in ipairs(calm and plain and { 'normal' } or BANDS) do
    if call('XLEN', keys.jobs[band]) > 0 or (not plain and call('EXISTS', fronts[band]) == 1) then
      lines[#lines + 1] = band
    end
  end
  -- While several bands stand in line their starts are counted: each `share`-th is for a lower band, which take turns.
  local shared, before = #lines > 1 and tonumber(share) > 0, taken
  if shared then
    local turn = call('HGET', keys.control, 'turn') or 0
    for number = math.floor(turn / share) + 1, math.floor((turn + room - taken) / share) do
      local goal = taken + 1
      for i = 0, #lines - 2 do -- the one whose turn it is, or else the next that has something
        if taken < goal then
          take_from(lines[2 + (number + i) % (#lines - 1)], 1)
        end
      end
    end
  end
  for _, band in ipairs(lines) do
    take_from(band, room)
  end
  if shared and taken > before then
    call('HINCRBY', keys.control, 'turn', taken - before)
  end
end

more = more or left <= 0 -- behind what was looked at are others
if taken == 0 and slots > 0 and company == 'locked' and passed then
  take_suspect() -- one that was met just now
end

if rated and taken > 0 then
  rates.note_starts(keys.starts, rate, rate_ms, taken)
end

-- What becomes of the caller, and which others are to look.
freed = tonumber(max_running) > 0 and freed or 0 -- elsewhere a slot that comes free lets no other job start
local full = taken == #wanted or answer[2] == 'alone'
local others = full and not calm and calls.others_idle(owner)
if others and #wanted > 0 and rated and not opens then
  opens = select(2, rates.may_start(keys.starts, rate, rate_ms))
end
local remains = (opens or others) and calls.waiting(taken, plain) > 0 -- something may be left in line
if remains and opens then
  call('ZADD', keys.alarms, format('%.0f', opens), '~')
  alarmed = true
end
local soonest = (not plain or alarmed) and calls.next_time() or nil

if full and #wanted == 0 then
  rings = math.max(brought + rings, freed, called_us and 1 or 0) -- a call that it cannot use is for another
  calls.stay_away(owner, state[3], soonest)
elseif full then
  local most = tonumber(max_running)
  local open = remains and not opens and (most == 0 or gates.free_slots(most) > taken)
  rings = open and math.max(1, brought + rings - taken) or 0
  calls.stay_away(owner, state[3], soonest)
elseif (more or stopped or rings > 0) and not state[1] then
  rings = 0
  answer[1] = calls.come_again(owner)
else
  rings = passed and math.max(brought, freed) or 0
  answer[1] = calls.sleep(owner, state[3], soonest)
  if passed and called_us then
    call_idle(1, called_us) -- those that came later have left it, too
  end
end
freed = 0
if #lane == 0 then
  vacated = 0 -- no other platform waits for its slots
end
return answer

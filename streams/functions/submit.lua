-- submit: accept a job once; the same id with the same body is the same job.
-- KEYS  record       hash    the job's record, made here
--       log          list    its history, begun here when it is to start later
--       args         string  args too large for the stream entry
--       jobs_urgent  stream  the line of a band, as its three neighbours
--       jobs_high    stream
--       jobs_normal  stream
--       jobs_low     stream
--       front        zset    where a job that goes first goes
--       due          zset    where a job that starts later rests
--       alarms       zset    when it expires
--       events       stream  the live feed
--       bell         stream  rung for those who wait for work
-- ARGV  key          the job's key
--       band         its priority
--       kind         what is to be done
--       payload      its args, JSON
--       fingerprint  of kind, args and options
--       room         args longer than this many bytes are kept beside the entry
--       extras       what few jobs have, as `name=value` words: delay_ms run_at_ms expires_ms first order limit keep dedupe mode ttl_ms options
-- Returns  accepted <state> | again <state> | conflict | duplicate <key> <state> | replaced <key> <state>
local known = call('HMGET', record, 'fingerprint', 'state')
if known[2] then
  if known[1] == fingerprint then
    return { 'again', known[2] }
  end
  return { 'conflict' }
end

local extra, until_ms = {}, nil
if #extras > 0 then
  for name, value in string.gmatch(extras, '(%S-)=(%S+)') do
    extra[name] = value
  end
  until_ms = extra.run_at_ms or extra.delay_ms and now_ms + extra.delay_ms
  if until_ms and tonumber(until_ms) <= tonumber(now_ms) then
    until_ms = nil
  end
  if extra.dedupe then
    local taken = prefix .. 'dedupe:' .. extra.dedupe
    local other = call('GET', taken)
    local state = other and call('HGET', prefix .. 'job:' .. other, 'state')
    if state then
      if extra.mode == 'debounce' and state == 'delayed' and until_ms and
        call('HGET', prefix .. 'job:' .. other, 'attempt') == false then -- the newest asks, the oldest waits
        call('SET', prefix .. 'args:' .. other, payload)
        call('HSET', prefix .. 'job:' .. other, 'fingerprint', fingerprint, 'kind', kind)
        call('ZADD', due, until_ms, other)
        rung = true
        return { 'replaced', other, state }
      end
      return { 'duplicate', other, state }
    end
    call('SET', taken, key)
    if extra.ttl_ms then
      call('PEXPIRE', taken, extra.ttl_ms)
    end
  end
end

local entry
if #payload > tonumber(room) or extra.mode == 'debounce' then
  call('SET', args, payload)
  entry = call('XADD', jobs[band], '*', 'id', key)
else
  entry = call('XADD', jobs[band], '*', 'id', key, 'args', payload)
end
call('HSET', record, 'state', until_ms and 'delayed' or 'waiting', 'kind', kind, 'entry', entry, 'fingerprint', fingerprint)
if band ~= 'normal' then -- as most are: a record without a band costs 16 bytes less
  call('HSET', record, 'band', band)
end
rung = true
if #extras == 0 then
  return { 'accepted', 'waiting' }
end

if extra.options then
  call('HSET', record, 'options', extra.options)
end
local marks = {}
for _, name in ipairs({ 'order', 'limit', 'keep', 'dedupe' }) do
  if extra[name] and not (name == 'dedupe' and extra.mode == 'throttle') then
    marks[#marks + 1] = name .. '=' .. extra[name]
  end
end
if #marks > 0 then
  call('HSET', record, 'marks', table.concat(marks, ' '))
end
if extra.dedupe then
  call('HSET', record, 'dedupe', extra.dedupe)
end
if extra.order then
  call('ZADD', prefix .. 'order:' .. extra.order, acceptance(entry), key)
end
if extra.expires_ms then
  call('ZADD', alarms, extra.expires_ms, '!' .. key)
end
if until_ms or extra.first then -- its entry pends under the reserved consumer: it does not wait for its turn in the line
  local held_back = redis.pcall('XCLAIM', jobs[band], GROUP, FRONT, 0, entry, 'FORCE', 'JUSTID')
  if held_back.err then -- a new line
    call('XGROUP', 'CREATE', jobs[band], GROUP, 0)
    call('XCLAIM', jobs[band], GROUP, FRONT, 0, entry, 'FORCE', 'JUSTID')
  end
end
if until_ms then
  call('HSET', record, 'seq', emit(key, { seq = 1 }, body(nil, 'delayed', nil, ',"until":"' .. iso(tonumber(until_ms)) .. '"')))
  call('ZADD', due, until_ms, key)
  return { 'accepted', 'delayed' }
end
if extra.first then
  call('ZADD', front, '-' .. acceptance(entry), key)
end
return { 'accepted', 'waiting' }

-- claim: open attempts for as many jobs as there is room for, the front of the line first, then band by band.
-- KEYS  jobs_urgent  stream  the lines, read by the group
--       jobs_high    stream
--       jobs_normal  stream
--       jobs_low     stream
--       front        zset    jobs that go first
--       leases       hash    who runs what; its length is how many run
--       events       stream  the live feed
--       bell         stream  where the caller waits when there is too little
-- ARGV  owner        the consumer that claims
--       deadline_ms  its silence after which the lease counts as lost
--       overall      how many may run at a time on this platform, 0: any number
--       max_crashes  lost attempts that end a job: one loss before that it runs apart from others like it
--       nonces       one fence per free slot, separated by spaces; may be empty
-- Returns  <bell id> then nonce, key, attempt, kind, args of each job; the bell id is empty when every slot was filled
local wanted = {}
for nonce in string.gmatch(nonces, '%S+') do
  wanted[#wanted + 1] = nonce
end
flush_leases()

local answer, taken = { '' }, 0

-- An entry's fields are `id`, the key and, unless they are kept beside it, `args` and the payload.
local function hand_over(nonce, key, attempt, kind, fields)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = nonce, key, attempt, kind
  answer[n + 5] = fields[4] or call('GET', prefix .. 'args:' .. key) or ''
end

-- What an unheard answer gave is given again, under the same fences. Every call looks, not only one that is known to be
-- a repetition: on another link the first send may arrive after it, and a nonce must never stand for two jobs.
if #wanted > 0 then
  local fresh = {}
  for i, lease in ipairs(call('HMGET', leases, unpack(wanted))) do
    if lease then
      local key, band, entry = match(lease, '^%d+ %d+ (%S+) %S+ %S+ %S+ (%S+) (%S+)')
      local job = call('HMGET', prefix .. 'job:' .. key, 'attempt', 'kind')
      local found = call('XRANGE', jobs[band], entry, entry)[1]
      hand_over(wanted[i], key, job[1], job[2], found and found[2] or {})
    else
      fresh[#fresh + 1] = wanted[i]
    end
  end
  wanted = fresh
end

local room = #wanted
if tonumber(overall) > 0 then
  room = math.min(room, tonumber(overall) - call('HLEN', leases))
end

local function open(band, entry, fields, apart)
  local key = fields[2]
  local record = prefix .. 'job:' .. key
  local job = call('HMGET', record, 'state', 'entry', 'kind', 'attempt', 'seq')
  if not job[1] then -- nobody knows this job any more: the entry is a leftover
    add(settled, band, entry)
    return
  end
  if job[1] ~= 'waiting' or job[2] ~= entry then -- delivered again after the group was rebuilt; not for us
    return
  end
  local nonce, attempt, seq = wanted[taken + 1], plus_one(job[4] or 0), plus_one(job[5] or 1)
  local started = next_id(seq)
  taken = taken + 1
  call('HSET', record, 'state', 'running', 'attempt', attempt, 'nonce', nonce, 'owner', owner, 'started', started)
  tell(key, seq, started .. ' ' .. body(attempt, 'started', owner))
  if job[4] then
    call('ZREM', front, key)
  end
  held[nonce] = '0 ' .. seq .. ' ' .. key .. ' ' .. started .. ' ' .. attempt .. ' ' .. owner .. ' ' .. band .. ' ' ..
    entry .. ' ' .. deadline_ms .. (apart and ' apart' or '')
  touched[nonce] = true
  hand_over(nonce, key, attempt, job[3], fields)
end

-- A job that may be what kills its workers takes those beside it along, and they are counted too. So on its last chance
-- it is handed out only to an owner that runs no other such job: the innocent among them then end well.
local apart -- whether the owner runs one, once we had to know
local function runs_one_apart()
  if apart == nil then
    apart = false
    for _, lease in ipairs(call('HVALS', leases)) do
      apart = apart or match(lease, '^%d+ %d+ %S+ %S+ %S+ (%S+) .* apart$') == owner
    end
  end
  return apart
end

if room > 0 then
  for _, key in ipairs(call('ZRANGE', front, 0, room + 99)) do
    if taken >= room then
      break
    end
    local job = redis.pcall('HMGET', prefix .. 'job:' .. key, 'band', 'entry', 'crashes', 'state')
    local band = job[1] or 'normal'
    local suspect = job[3] and job[3] + 1 >= tonumber(max_crashes)
    if not suspect or not runs_one_apart() then
      call('ZREM', front, key)
      -- protected: without its group the entry is found in the line itself, below
      local found = job[4] == 'waiting' and redis.pcall('XCLAIM', jobs[band], GROUP, owner, 0, job[2])[1]
      if found then
        local before = taken
        pcall(open, band, job[2], found[2], suspect)
        apart = apart or (suspect and taken > before)
      end
    end
  end
end

for _, band in ipairs(BANDS) do
  while taken < room and call('XLEN', jobs[band]) > 0 do
    local read = { 'XREADGROUP', 'GROUP', GROUP, owner, 'COUNT', room - taken, 'STREAMS', jobs[band], '>' }
    local reply = redis.pcall(unpack(read))
    if reply and reply.err then -- a new stream, or its group was destroyed: begin at its first entry
      call('XGROUP', 'CREATE', jobs[band], GROUP, 0)
      reply = call(unpack(read))
    end
    if not reply then
      break
    end
    for _, entry in ipairs(reply[1][2]) do -- protected: a job whose keys were spoilt by hand holds up no other
      pcall(open, band, entry[1], entry[2])
    end
  end
end

-- A slot this caller leaves free is for whoever waits, unless the line is empty or nobody is ever kept waiting.
freed = (tonumber(overall) > 0 and taken == #wanted) and math.max(0, freed - taken) or 0
if taken < #wanted then
  local last = call('XREVRANGE', bell, '+', '-', 'COUNT', 1)[1]
  answer[1] = last and last[1] or '0-0'
end
return answer

-- lease: how a lease and its marks are written, which no other file knows, and the fence of an attempt. A lease is
--   <reports shown> <number of the last event> <key> <id of `started`> <attempt> <owner> <band> <entry> <deadline in ms><marks>
-- where the id of `started` is `-` once that event is in the history. Marks are what a job holds beside its place in line,
-- each a word ` name=value`; see `submit`.
-- KEYS  leases

-- The key of a lease's job, and the job as the lease knows it; nothing of a text that is not a lease.
function lease.read(text, nonce)
  local seq, key, started, attempt, owner, band, entry, marks =
    match(text, '^%d+ (%d+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) %d+(.*)$')
  if key then
    return key, { nonce = nonce, seq = seq, started = started, attempt = attempt, owner = owner,
      band = band, entry = entry, marks = marks }
  end
end

-- The fence: the job as the lease under `nonce` knows it, while `nonce` is the attempt that runs it; else nil. A change of
-- more than the history asks the record too, by `stands`.
function lease.fence(key, nonce)
  local held_key, job = lease.read(held[nonce] or '', nonce)
  if held_key == key then
    return job
  end
end

-- The lease of a job goes, if it has one. It goes with the state that says that the job runs, whatever may break after
-- that: a lease that outlived its job would let it end twice.
function lease.drop(job)
  if job.nonce then
    held[job.nonce], touched[job.nonce] = false, true
    add(dropped, job.owner, job.nonce)
    freed, vacated = freed + 1, vacated + 1
  end
end

-- Whether the record knows of the attempt as well, and its job runs. Else the lease only takes up room, and is dropped.
function lease.stands(record, job)
  local known = call('HMGET', record, 'nonce', 'state')
  if known[1] == job.nonce and known[2] == 'running' then
    return true
  end
  lease.drop(job)
end

-- The job of an attempt that changes more than the history: both its lease and its record must know of it. Else why not:
-- `again`, it brought the job to a goal before, or `lost`, it is not, or no longer, its job.
function lease.own(record, key, nonce, goal, other_goal, third_goal)
  local job = lease.fence(key, nonce)
  if job then
    if lease.stands(record, job) then
      return job
    end
  elseif goal then
    local known = call('HMGET', record, 'state', 'nonce')
    if known[2] == nonce and (known[1] == goal or known[1] == other_goal or known[1] == third_goal) then
      call('HSET', record, 'nonce', nonce) -- a write, for a WAIT behind this call: it covers those of its own connection
      return nil, 'again'
    end
  end
  return nil, 'lost'
end

-- The job of an attempt that does more than report, and does not end yet: one that was asked to stop does nothing more.
function lease.at_work(record, key, nonce)
  local job, refused = lease.own(record, key, nonce)
  if job and lease.asked_to_stop(job.marks) then
    return nil, 'cancelled'
  end
  return job, refused
end

-- The same, as far as a lease says what changes: for those that renew it. `rest` is what never changes.
function lease.glance(key, nonce)
  local reported, seq, held_key, started, rest = match(held[nonce] or '', '^(%d+) (%d+) (%S+) (%S+) (.*)$')
  if held_key == key then
    return reported, seq, started, rest
  end
end

-- The lease of an attempt that has just written an event.
function lease.renew(key, nonce, reported, seq, rest)
  held[nonce], touched[nonce] = reported .. ' ' .. seq .. ' ' .. key .. ' - ' .. rest, true
end

-- Some leases of an owner, chosen at random, as nonce and lease in turn; leases that were removed by hand leave its list.
function lease.some_of(owner, most)
  local found, over = {}, {}
  local nonces = call('SRANDMEMBER', holds(owner), most)
  for i, text in ipairs(#nonces > 0 and call('HMGET', keys.leases, unpack(nonces)) or nonces) do
    if text then
      found[#found + 1], found[#found + 2] = nonces[i], text
    else
      over[#over + 1] = nonces[i]
    end
  end
  if #over > 0 then
    call('SREM', holds(owner), unpack(over))
  end
  return found
end

-- The lease of a new attempt.
function lease.grant(nonce, seq, key, started, attempt, owner, band, entry, deadline_ms, marks)
  held[nonce], touched[nonce] = '0 ' .. seq .. ' ' .. key .. ' ' .. started .. ' ' .. attempt .. ' ' .. owner .. ' ' ..
    band .. ' ' .. entry .. ' ' .. deadline_ms .. marks, true
  add(granted, owner, nonce)
end

function lease.mark(marks, name)
  return match(marks, ' ' .. name .. '=(%S+)')
end

lease.STOP = ' cancel=1'

-- Whether the marks, or a lease with them, say that the job is asked to stop.
function lease.asked_to_stop(marks)
  return string.find(marks, lease.STOP, 1, true)
end

-- The options of a job as its consumer gets them: one that has a parent tells it.
function lease.options_of(options, marks)
  local parent = marks and match(' ' .. marks, ' parent=(%S+)')
  if not parent then
    return options
  end
  return '{"parent":"' .. parent .. '"' .. (options and ',' .. string.sub(options, 2) or '}')
end

-- Name the parent that the end of a live job goes to, or none: in its record, and in its lease if it runs.
function lease.tell_end_to(record, key, parent)
  local field = call('HMGET', record, 'marks', 'nonce')
  local function marked(text)
    return (string.gsub(text, ' parent=%S+', '')) .. (parent and ' parent=' .. parent or '')
  end
  local marks = marked(field[1] and ' ' .. field[1] or '')
  if marks == '' then
    call('HDEL', record, 'marks')
  else
    call('HSET', record, 'marks', string.sub(marks, 2))
  end
  local nonce = field[2]
  if nonce and nonce ~= '' then
    held[nonce] = held[nonce] or call('HGET', keys.leases, nonce)
    if lease.fence(key, nonce) then
      held[nonce], touched[nonce] = marked(held[nonce]), true
    end
  end
end

-- The marks of a lease: `alone`, its process runs nothing else; `strict`, it keeps its place; then those of its record.
function lease.marks_of(alone, strict, marks)
  if not (alone or strict or marks) then -- as most are
    return ''
  end
  return (alone and ' alone=1' or '') .. (strict and ' strict=1' or '') .. (marks and ' ' .. marks or '')
end

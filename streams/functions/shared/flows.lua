-- flows: the news between a job and the jobs that it spawned. What concerns another platform goes by its outbox.
-- Uses  history lease places reopening
-- KEYS  outbox

local function platform_here()
  local tag, placed = match(prefix, '{([^}]*)}([^:]*):')
  return placed == '' and tag or placed
end

-- The id of a job of this platform, and the key of a job by its id if it is one of this platform.
function flows.id(key)
  return platform_here() .. '.' .. key
end

function flows.key_here(id)
  local platform, key = match(id, '^([^.]+)%.(.+)$')
  return platform == platform_here() and key
end

-- What was wanted of a child has come, or its parent need not wait for the others: the parent goes on, once.
local function come(record, key, number, failed)
  local field = call('HMGET', record, 'join', 'wanted', 'join_fails')
  if field[1] ~= number then
    return -- of an earlier join
  end
  local wanted = (field[2] or 1) - 1
  call('HSET', record, 'wanted', format('%d', math.max(0, wanted)))
  if failed then
    call('HSET', record, 'join_failed', 1)
  end
  if wanted <= 0 or (failed and field[3] == '1') then
    local state, job = places.standing(record)
    if state == 'awaiting' and job.awaits == 'join' then
      places.go_on(record, key, job)
    end
  end
end

-- A child that has ended runs again. A parent that awaits has it back; one that failed because of a child awaits it.
local function revive(record, key, children, child)
  local state, job = places.standing(record)
  local why = state == 'failed' and match(call('HGET', record, 'error') or '', '^[^\t]*')
  if why == 'ChildFailed' then
    call('HSET', children, child, '!0')
    reopening.reopen(record, key, job, '', child)
  elseif state == 'awaiting' then
    call('HSET', children, child, '') -- the parent finds it when it goes on
  end
end

-- The end of a child comes to its parent; the first one counts. `event` is as a history keeps it, without its id.
function flows.arrive(record, key, child, event)
  local children = key_of('children', key)
  local known = call('HGET', children, child)
  if not known or known == '.' then
    return call('EXISTS', record) == 1 and 'foreign' or 'missing'
  end
  local status, number = match(event, '^%S+ (%l+) '), match(known, '^!(.*)$')
  if status == 'reopened' then
    if known ~= '' and not number then
      revive(record, key, children, child)
    end
    return 'ok'
  elseif known ~= '' and not number then
    call('HSET', children, child, known) -- for a WAIT behind this call, as in `lease.own`
    return 'again'
  end
  call('HSET', children, child, event)
  if number then
    come(record, key, number, status ~= 'completed')
  end
  return 'ok'
end

-- The parent of a job hears of its end, or that it runs again. Protected: whatever became of the parent's keys or of the
-- outbox by hand, the job ends. Answers the entry of the outbox, if there is one.
function flows.tell_parent(key, job, event)
  local parent = lease.mark(job.marks, 'parent')
  if #event > NEWS_BYTES then
    event = history.body(job.attempt, match(event, '^%S+ (%l+) '), job.owner,
      ',"error":{"type":"TooLarge","message":"its error has over 256 KB; the history of the child tells it"}')
  end
  local own = flows.key_here(parent)
  if own then
    pcall(flows.arrive, key_of('job', own), own, flows.id(key), event)
  else
    local entry = redis.pcall('XADD', keys.outbox, '*', 'do', 'arrive', 'parent', parent, 'child', flows.id(key), 'event', event)
    return type(entry) == 'string' and entry
  end
end

-- The children of a cancelled job that have not ended are to be cancelled as well.
function flows.cancel_children(key)
  if redis.pcall('EXISTS', key_of('children', key)) == 1 then
    redis.pcall('XADD', keys.outbox, '*', 'do', 'cancel', 'parent', flows.id(key))
  end
end

-- A job that was there before it was spawned, left by an earlier life of its parent: if it has ended, that is its end.
function flows.catch_up(record, key, child, child_key)
  local state = call('HGET', key_of('job', child_key), 'state')
  if state == 'completed' or state == 'failed' or state == 'cancelled' then
    local last = call('LINDEX', key_of('log', child_key), -1)
    flows.arrive(record, key, child, match(last or '', '^%S+ (.*)$') or history.body(nil, 'failed', nil,
      ',"error":{"type":"ChildLost","message":"it ended before, and its end is not kept"}'))
  end
end

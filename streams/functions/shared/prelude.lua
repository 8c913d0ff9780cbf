-- prelude: what every transition stands on: the clock, the keys, and what the operations of a call write together.
-- KEYS  jobs leases beats events ended_completed control idle called
--
-- A script runs a list of operations, platform by platform. What many operations do alike (take leases away, settle
-- stream entries, feed the live events, call idle consumers) is gathered and written once per platform by `flush`, so
-- that a batch costs few calls. Nothing between a gathered write and `flush` can fail: each operation runs
-- protected, checks everything before its first write, and `flush` runs whatever happened.

-- Each call makes its closures, and Lua finds what they use from the newest local on: what most of them use comes last.
local gather, read_leases, holds, flush_holders, flush_leases, call_idle, at, call_lane, flush_feed, flush
local ANSWER_BYTES = 1024 * 1024 -- no call answers much more, but for one job or step; the rest comes with the next
local NEWS_BYTES = 256 * 1024      -- of the end of a child, as its parent keeps it
local SPAWNED = '@spawned'         -- among the steps: the places whose children are all in line, so that no later attempt spawns them
local MOST_CALLS = 16            -- in one call; a consumer that cannot take all there is calls the next one
local answered         -- bytes of args and steps that this call answers
local settled          -- band -> entries whose jobs have ended
local completed        -- jobs that did
local vacated          -- how many leases ended in this call
local freed            -- how many of these were not used again by it
local granted          -- owner -> nonces that this call gave it
local dropped          -- owner -> nonces whose leases this call ends
local touched          -- nonces whose lease is not what the store has
local held             -- nonce -> what its lease says; of every nonce this call names, and of those it grants
local feed, told       -- the live events of this call, and how many they are
local rings            -- how many idle consumers should look: one for each job that came in line
local now_us, now_ms = (function(clock)
  local micros = string.format('%06d', clock[2])
  return clock[1] .. micros, clock[1] .. string.sub(micros, 1, 3)
end)(redis.call('TIME'))
local match, format, call = string.match, string.format, redis.call
local keys, prefix     -- of the platform at hand: its keys by name, and what begins the others

-- The key of one job, label or owner: the one builder of keys that do not come with a call.
local function key_of(word, name)
  return prefix .. word .. ':' .. name
end

function gather()
  held, touched, dropped, granted = {}, {}, {}, {}
  settled, completed, feed, told, freed, vacated, rings, answered = {}, {}, {}, 0, 0, 0, 0, 0
end

local function add(lists, name, value)
  local list = lists[name]
  if list then
    list[#list + 1] = value
  else
    lists[name] = { value }
  end
end

-- Reads the leases that the operations of this call name, all at once.
function read_leases(nonces)
  if #nonces > 0 then
    local found = call('HMGET', keys.leases, unpack(nonces))
    for i = 1, #nonces do -- `ipairs` costs four times as much, in the loops that every job goes through
      held[nonces[i]] = found[i]
    end
  end
end

-- The nonces that one owner holds: what concerns one owner is found without a look at the leases of all others.
function holds(owner)
  return key_of('holds', owner)
end

-- Every owner of a lease is among those that observers watch, and its list names the lease. Protected: whatever became
-- of these keys by hand, leases count, and `enlist` puts right what they should say.
function flush_holders()
  for owner, nonces in pairs(dropped) do
    redis.pcall('SREM', holds(owner), unpack(nonces))
  end
  for owner, nonces in pairs(granted) do
    redis.pcall('SADD', holds(owner), unpack(nonces))
    redis.pcall('HSETNX', keys.beats, owner, 0)
  end
  dropped, granted = {}, {}
end

function flush_leases()
  if not next(touched) then
    return
  end
  local kept, over, keeps, ends_now = {}, {}, 0, 0
  for nonce in pairs(touched) do
    local lease = held[nonce]
    if lease then
      kept[keeps + 1], kept[keeps + 2] = nonce, lease
      keeps = keeps + 2
    else
      ends_now = ends_now + 1
      over[ends_now] = nonce
    end
  end
  if ends_now > 0 then
    call('HDEL', keys.leases, unpack(over))
  end
  if keeps > 0 then
    call('HSET', keys.leases, unpack(kept))
  end
  if next(dropped) or next(granted) then
    flush_holders()
  end
  touched = {}
end

-- Something came in line, or a time was set: another consumer should look.
local function ring(count)
  rings = rings + (count or 1)
end

local BELL_MS = 60000   -- how long a bell is kept that its owner does not hear

-- Calls consumers that wait for work, those that have waited longest first. Each is listed as called until it claims:
-- `wake` calls others instead of one that does not come. `before`: only those that wait since then. `newest`: those that
-- claimed last, when some are known to be gone; an idle consumer claims every few seconds while it lives.
function call_idle(count, before, newest)
  count = math.min(count, MOST_CALLS)
  local owners, step
  if before then
    owners, step = call('ZRANGE', keys.idle, '-inf', '(' .. before, 'BYSCORE', 'LIMIT', 0, count), 1
    call('ZREM', keys.idle, '', unpack(owners))
  else
    owners, step = call(newest and 'ZPOPMAX' or 'ZPOPMIN', keys.idle, count), 2 -- each with its score
  end
  for i = 1, #owners, step do
    local bell = key_of('bell', owners[i])
    call('RPUSH', bell, 1)
    call('PEXPIRE', bell, BELL_MS)
    call('ZADD', keys.called, before or now_us, owners[i])
  end
end

-- The same key of another platform: the hash tag is its name, or, with a placement, stands before it.
function at(sibling, key)
  return (string.gsub(key, '{([^}]*)}([^:]*)', function(tag, placed)
    return placed == '' and '{' .. sibling .. '}' or '{' .. tag .. '}' .. sibling
  end, 1))
end

-- A slot of a lane is for all its platforms: an idle consumer of each other one is called. Which those are, `claim` has
-- noted.
function call_lane()
  local lane = call('HGET', keys.control, 'lane')
  if lane and #lane > 0 then
    local own_idle, own_called, own_prefix = keys.idle, keys.called, prefix
    call('HSET', keys.control, 'lane_free_ms', now_ms)
    for sibling in string.gmatch(lane, '%S+') do
      call('HSET', at(sibling, keys.control), 'lane_free_ms', now_ms)
      keys.idle, keys.called, prefix = at(sibling, own_idle), at(sibling, own_called), at(sibling, own_prefix)
      call_idle(1)
    end
    keys.idle, keys.called, prefix = own_idle, own_called, own_prefix
  end
end

-- The feed is bounded in entries and in bytes. An entry holds the events of one call up to about FEED_ENTRY bytes; the
-- larger it is, the fewer entries stay before it, so that the entry at place p has at most FEED_SHARE / p bytes. The
-- largest feed is then FEED_SHARE * (1 + ln(FEED_LENGTH * FEED_ENTRY / FEED_SHARE)), about 26 MB.
local FEED_LENGTH, FEED_BATCH, FEED_ENTRY, FEED_SHARE = 4096, 64, 16 * 1024, 8 * 1024 * 1024

function flush_feed()
  local first, bytes, words = 1, 0, 2 * told
  for last = 2, words, 2 do
    bytes = bytes + #feed[last - 1] + #feed[last]
    if bytes >= FEED_ENTRY or last - first + 1 >= FEED_BATCH or last == words then
      local length = math.min(FEED_LENGTH, math.floor(FEED_SHARE / bytes))
      call('XADD', keys.events, 'MAXLEN', '~', length, '*', unpack(feed, first, last))
      first, bytes = last + 1, 0
    end
  end
end

function flush()
  flush_leases()
  for band, entries in pairs(settled) do
    redis.pcall('XACK', keys.jobs[band], GROUP, unpack(entries)) -- protected: the group may have been destroyed by hand
    call('XDEL', keys.jobs[band], unpack(entries))
  end
  if #completed > 0 then
    call('RPUSH', keys.ended_completed, unpack(completed))
  end
  flush_feed()
  if vacated > 0 then
    call_lane()
  end
  local count = math.max(rings, freed)
  if count > 0 then
    call_idle(count)
  end
end

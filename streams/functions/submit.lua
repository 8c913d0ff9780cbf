-- submit: accept a job once; the same id with the same body is the same job.
-- KEYS  record       hash    the job's record, made here
--       args         string  args too large for the stream entry
--       jobs_urgent  stream  the line of a band, as its three neighbours
--       jobs_high    stream
--       jobs_normal  stream
--       jobs_low     stream
--       bell         stream  rung for those who wait for work
-- ARGV  key          the job's key
--       band         its priority
--       kind         what is to be done
--       payload      its args, JSON
--       fingerprint  of kind, args and options
--       room         args longer than this many bytes are kept beside the entry
-- Returns  accepted waiting | again <state> | conflict
local known = call('HMGET', record, 'fingerprint', 'state')
if known[2] then
  if known[1] == fingerprint then
    return { 'again', known[2] }
  end
  return { 'conflict' }
end
local entry
if #payload > tonumber(room) then
  call('SET', args, payload)
  entry = call('XADD', jobs[band], '*', 'id', key)
else
  entry = call('XADD', jobs[band], '*', 'id', key, 'args', payload)
end
call('HSET', record, 'state', 'waiting', 'kind', kind, 'entry', entry, 'fingerprint', fingerprint)
if band ~= 'normal' then -- as most are: a record without a band costs 16 bytes less
  call('HSET', record, 'band', band)
end
rung = true
return { 'accepted', 'waiting' }

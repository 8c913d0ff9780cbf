-- reclaim: take a job away from an owner that was seen silent for its deadline; the last allowed loss ends the job.
-- Script  tending
-- Uses  ends lease places
-- KEYS  record log beats idle control
-- ARGV  key      the job's key
--       nonce    the lease that was watched
--       owner    whose it is
--       counter  the owner's beat counter as last seen, empty when it had none
-- Rules  max_crashes max_starts
-- Returns  reclaimed | failed | cancelled | alive | gone
local job = lease.fence(key, nonce)
if not job then
  return 'gone'
end
if (call('HGET', keys.beats, owner) or '') ~= counter then
  return 'alive'
end
if not lease.stands(record, job) then
  return 'gone'
end
call('ZREM', keys.idle, owner) -- the job calls another consumer
local crashes = (call('HGET', record, 'crashes') or 0) + 1
local answer = ends.obeyed(record, key, job)
-- One that did not run alone in its process may be innocent: it comes again, alone.
if not answer and crashes >= tonumber(max_crashes) and (tonumber(max_crashes) == 1 or lease.mark(job.marks, 'alone')) then
  answer = ends.fail(record, key, job, 'lost', 'WorkerLost',
    crashes .. ' attempts lost their worker; the job may be what ends it')
end
answer = answer or ends.circles(record, key, job, max_starts) or ends.stranded(record, key, job)
if not answer then
  places.back_in_line(record, key, job, 'lost', crashes + 1 >= tonumber(max_crashes))
end
call('HSET', record, 'nonce', '', 'crashes', crashes) -- from here on the old attempt is mute
call('HINCRBY', keys.control, 'lost', 1)
return answer or 'reclaimed'

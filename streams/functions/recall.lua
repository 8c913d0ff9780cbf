-- recall: what the steps of a job gave in earlier attempts.
-- KEYS  steps   hash  what the job's steps gave
--       leases  hash  the fence
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
-- Returns  name and value in turn | lost
if not fence(key, nonce) then
  return 'lost'
end
return call('HGETALL', steps)

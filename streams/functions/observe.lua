-- observe: see who beats and who runs what.
-- KEYS  beats   hash  owner -> beat counter
--       leases  hash  who runs what
-- Returns  the beats, then the leases, each as name and value in turn
return { call('HGETALL', beats), call('HGETALL', leases) }

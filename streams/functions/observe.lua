-- observe: see which consumers beat.
-- KEYS  beats  hash  owner -> beat counter
-- Returns  owner and counter in turn
return call('HGETALL', beats)

-- restart: ask every consumer of a platform to drain and leave, so that its supervisor starts it anew.
-- KEYS  control  hash  how often that was asked
-- Returns  how often that was asked
return call('HINCRBY', control, 'restarts', 1)

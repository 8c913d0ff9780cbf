-- wake: bring what is due in line, end what has expired, also while nobody has room to claim.
-- KEYS  due           zset    jobs that start later, or again
--       alarms        zset    what else happens by itself
--       front         zset    where what is due goes
--       ended_failed  zset    for what has expired
--       events        stream  the live feed
--       bell          stream  rung when something came in line
-- Returns  how many there were
return (wake_due())

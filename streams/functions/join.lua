-- join: see what children of a running job gave, a page of them; those that have not ended are wanted from here on.
-- Script  settling
-- Uses  lease
-- KEYS  record children
-- ARGV  key     the job's key
--       nonce   the fence: refused unless it is the current one
--       number  of the join, another one for each join of each attempt
--       ids     of children, separated by spaces
-- Returns  for each the event of its end without an id, nothing while it has not ended, `?` if it is not a child of this job; fewer than asked for if they are large; or lost | cancelled
local job, refused = lease.at_work(record, key, nonce)
if not job then
  return refused
end
if call('HGET', record, 'join') ~= number then
  call('HSET', record, 'join', number, 'wanted', 0)
  call('HDEL', record, 'join_failed')
end
local page, wanted = {}, 0
for id in string.gmatch(ids, '%S+') do
  if answered >= ANSWER_BYTES then
    break
  end
  local news = call('HGET', children, id)
  if not news or news == '.' then
    news = '?'
  elseif news == '' or string.sub(news, 1, 1) == '!' then
    if news ~= '!' .. number then
      call('HSET', children, id, '!' .. number)
      wanted = wanted + 1
    end
    news = ''
  end
  page[#page + 1] = news
  answered = answered + #news
end
if wanted > 0 then
  call('HINCRBY', record, 'wanted', wanted)
end
return page

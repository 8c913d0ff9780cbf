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
local asked, page, marks, marked = {}, {}, {}, {}
for id in string.gmatch(ids, '%S+') do
  asked[#asked + 1] = id
end
local PART = 8 -- children in one look: the end of each may have a quarter of a megabyte
for first = 1, #asked, PART do
  local last = math.min(first + PART - 1, #asked)
  for i, news in ipairs(answered < ANSWER_BYTES and call('HMGET', children, unpack(asked, first, last)) or {}) do
    if answered >= ANSWER_BYTES then
      break
    end
    local id = asked[first + i - 1]
    if not news or news == '.' then
      news = '?'
    elseif news == '' or string.sub(news, 1, 1) == '!' then
      if news ~= '!' .. number and not marked[id] then
        marks[#marks + 1], marks[#marks + 2], marked[id] = id, '!' .. number, true
      end
      news = ''
    end
    page[#page + 1] = news
    answered = answered + #news
  end
end
if #marks > 0 then
  call('HSET', children, unpack(marks))
  call('HINCRBY', record, 'wanted', #marks / 2)
end
return page

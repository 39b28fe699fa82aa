-- Takes tokens out of a bucket: the generic cell rate algorithm in microseconds, by the clock of the server.
-- KEYS[1] holds the time at which the bucket will be full. ARGV: the refill times of one token and of a whole bucket;
-- the number of tokens that were spent before, and the time since the first of them; the time for which a full bucket is
-- remembered; the number of tokens to take beside them: all of them or none. Returns the number of the tokens
-- spent before that now count, the number of tokens taken, and the time until the bucket is full again.
local interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local debt, age = tonumber(ARGV[3]), tonumber(ARGV[4])
local cost = tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local empty_at = now + capacity
-- A time that no bucket can have counts as none: it comes from another rate or another server's clock, or it is
-- garbage.
local full_at = tonumber(redis.call('GET', KEYS[1]))
if not (full_at and full_at <= empty_at) then
  full_at = 0
end
-- What was spent before counts from its own time on, so that it has come back since.
full_at = math.max(full_at, now - age)
local paid = math.min(debt, math.floor((empty_at - full_at) / interval))
full_at = full_at + paid * interval
local taken = 0
if paid == debt then
  full_at = math.max(full_at, now)
  if math.floor((empty_at - full_at) / interval) >= cost then
    taken = cost
  end
  full_at = full_at + taken * interval
end
if paid + taken > 0 then
  local left = full_at - now + tonumber(ARGV[5])
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil(left / 1000) + 1)
end
return {paid, taken, math.max(full_at - now, 0)}

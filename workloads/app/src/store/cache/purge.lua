-- Removes the destination of a code, and keeps away what slow readers found before the change.
-- KEYS: the destination, the negative entry or mark, the hold, and the template. ARGV: the mark of a link that is taken
-- down, or nothing; the seconds of the mark, and those of the hold.
-- A deletion comes first: it needs no memory, and after it even a full server executes the rest.
redis.call('DEL', KEYS[1], KEYS[4])
if ARGV[1] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
end
redis.call('SET', KEYS[3], '1', 'EX', ARGV[3])
return 0

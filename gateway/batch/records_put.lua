-- KEYS: rows, due. ARGV: id, value, due_at, previous version.
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or string.match(value, '^(%d+) ') ~= ARGV[4] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1

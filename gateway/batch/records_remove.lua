-- KEYS: rows, order, due, size. ARGV: id.
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('DECRBY', KEYS[4], string.match(value, '^%d+ (%d+) '))
return 1

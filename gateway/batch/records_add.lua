-- KEYS: rows, order, due, size. ARGV: id, value, due_at, size, max_count, max_size.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
    return 1
end
local size = tonumber(redis.call('GET', KEYS[4]) or '0') + tonumber(ARGV[4])
if redis.call('HLEN', KEYS[1]) + 1 > tonumber(ARGV[5]) or size > tonumber(ARGV[6]) then
    return 0
end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], (tonumber(last[2]) or 0) + 1, ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
redis.call('INCRBY', KEYS[4], ARGV[4])
return 1

-- KEYS: lines, claims, owners, returned, results. ARGV: line, result, field of the count.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HSETNX', KEYS[5], ARGV[1], ARGV[2]) == 0 then
    return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
return 1

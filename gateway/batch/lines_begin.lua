-- KEYS: lines, claims, owners, returned, results, ranges. ARGV: total.
if redis.call('HSETNX', KEYS[1], 'total', ARGV[1]) == 1 and tonumber(ARGV[1]) > 0 then
    redis.call('HSET', KEYS[6], '', '0:' .. ARGV[1])
end
return 1

-- KEYS: lines.
if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HSET', KEYS[1], 'closed', 1)
end
return 1

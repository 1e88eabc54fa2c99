-- KEYS: identity, pepper. ARGV: new identity, stored pepper ('': none), pepper to store ('': none).
-- Returns 1. Returns 0 and writes nothing if the store has an identity, or another pepper.
if redis.call('EXISTS', KEYS[1]) == 1 or (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then
    return 0
end
if ARGV[3] ~= '' then
    redis.call('SET', KEYS[2], ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1])
return 1

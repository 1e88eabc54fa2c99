-- KEYS: identity, pepper. ARGV: the identity, the pepper that is kept so far (''), the one to be kept ('': none).
-- Returns 1, or 0 and writes nothing where the store has an identity, or another pepper than that.
if redis.call('EXISTS', KEYS[1]) == 1 or (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then
    return 0
end
if ARGV[3] ~= '' then
    redis.call('SET', KEYS[2], ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1])
return 1

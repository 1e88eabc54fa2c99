-- KEYS: revision, teams, keys, identity, workers. ARGV: the revision that is known already, the identity that is expected ('': any).
-- Returns the revision, and where it is another one all teams, keys and workers, each as a list of name, row, name, row, in
-- MessagePack: one long text is read many times faster than twenty thousand short ones. With another identity than the
-- expected one it returns '!' and the identity, '' where there is none.
local identity = redis.call('GET', KEYS[4]) or ''
if ARGV[2] ~= '' and identity ~= ARGV[2] then
    return {'!', identity}
end
local revision = redis.call('GET', KEYS[1]) or '0'
if revision == ARGV[1] then
    return {revision}
end
return {revision, cmsgpack.pack(redis.call('HGETALL', KEYS[2])), cmsgpack.pack(redis.call('HGETALL', KEYS[3])),
    cmsgpack.pack(redis.call('HGETALL', KEYS[5]))}
